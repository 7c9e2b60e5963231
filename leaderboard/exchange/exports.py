"""Results as files: tables, citations and badges, with the numbers of the pages."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from defusedcsv import csv
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db.models import Max
from django.http import HttpResponse
from django.utils import timezone
from django.utils.html import escape
from ninja.responses import NinjaJSONEncoder

from leaderboard import formatting
from leaderboard.api.schemas import BoardOut, absolute
from leaderboard.board import columns
from leaderboard.board.columns import BoardRow
from leaderboard.board.filters import BoardFilters
from leaderboard.board.query import BoardQuery
from leaderboard.models import Calibration, Run, Score, Standing, Suite

#: Where the files of whole suites are kept.
FOLDER = "exports"
SCORE_COLUMNS = (
    *("run", "model", "suite", "case", "picture", "pair", "category", "kind", "repeat"),
    *("trip", "outcome", "change_seen", "reframed", "metric", "metric_version", "distance"),
    "retention",
)


def board_csv(rows: Sequence[BoardRow], filters: BoardFilters) -> HttpResponse:
    """The board as a table; what was not run is empty, an unreached half-life says "> N"."""
    response = _download("text/csv; charset=utf-8", f"convergebench-{filters.suite.key}.csv")
    writer = csv.writer(response)
    writer.writerow([column.file_name for column in columns.COLUMNS])
    writer.writerows([column.written(row) for column in columns.COLUMNS] for row in rows)
    return response


def board_json(asked: BoardQuery) -> HttpResponse:
    """The board exactly as the API gives it."""
    board = BoardOut.from_orm(asked)
    response = _download("application/json", f"convergebench-{asked.filters.suite.key}.json")
    response.write(json.dumps(board.model_dump(), cls=NinjaJSONEncoder))
    return response


def scores_csv(run: Run) -> Iterator[str]:
    """Every score of a run, line by line, so that large runs need no memory."""
    line = io.StringIO()
    writer = csv.writer(line)
    writer.writerow(SCORE_COLUMNS)
    for values in score_rows(run):
        yield line.getvalue()
        line.seek(0)
        line.truncate()
        writer.writerow([_cell(value) for value in values])
    yield line.getvalue()


def score_rows(run: Run) -> Iterator[tuple[Any, ...]]:
    """The scores of a run with what they belong to, in a stable order."""
    blanks = _blanks(run)
    names = run.editing_model.slug, run.suite.key
    scores = (
        Score.objects.filter(trip__chain__run=run)
        .select_related("metric", "trip__chain__case__picture")
        .order_by("trip__chain__case__position", "trip__chain__repeat", "trip__number", "metric")
    )
    for score in scores.iterator(chunk_size=2000):
        trip = score.trip
        chain, case = trip.chain, trip.chain.case
        blank = blanks.get((case.picture.pixels_sha256, score.metric_id))
        yield (
            *(run.pk, *names, case.slug, case.picture.slug, case.pair_slug, case.category),
            *(case.kind, chain.repeat, trip.number, chain.outcome, trip.change_seen),
            *(trip.reframed, score.metric.name, score.metric.version, score.distance),
            1 - score.distance / blank if blank else None,
        )


def _blanks(run: Run) -> dict[tuple[str, int], float]:
    pixels = run.suite.pictures.values_list("pixels_sha256", flat=True)
    rows = Calibration.objects.filter(pixels_sha256__in=list(pixels))
    return {
        (sha, metric): blank
        for sha, metric, blank in rows.values_list("pixels_sha256", "metric_id", "blank")
    }


def parquet_name(suite: Suite) -> str | None:
    """The file that holds what is public of a suite now; None where nothing is.

    The name changes with the runs on the board and with their numbers, so a run that is
    published, withdrawn or scored again makes the file of before one that nobody is given.
    """
    runs = Run.objects.on_the_board().filter(suite=suite)
    # Standings are written anew whenever a run is summed up, so their keys tell the sums apart.
    found = runs.order_by("pk").values_list("pk").annotate(written=Max("standings__pk"))
    if not found:
        return None
    stamp = hashlib.sha256(repr([suite.content_hash, *found]).encode()).hexdigest()[:16]
    return f"{FOLDER}/{_stem(suite)}{stamp}.parquet"


def _stem(suite: Suite) -> str:
    return f"{suite.key}-scores-"


def write_parquet(suite: Suite) -> None:
    """Every public score of a suite as one Parquet file in storage; written by a worker."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = parquet_name(suite)
    if name and not default_storage.exists(name):
        runs = Run.objects.on_the_board().filter(suite=suite)
        runs = runs.select_related("editing_model", "suite").order_by("pk")
        rows = [values for run in runs for values in score_rows(run)]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCORE_COLUMNS)
        arrays = (pa.array(list(column)) for column in columns)
        table = pa.table(dict(zip(SCORE_COLUMNS, arrays, strict=True)))
        about = {"suite": suite.key, "content_hash": suite.content_hash}
        about |= {"written": f"{timezone.now():%Y-%m-%d}"}
        buffer = io.BytesIO()
        pq.write_table(table.replace_schema_metadata(about), buffer, compression="zstd")
        default_storage.save(name, ContentFile(buffer.getvalue()))
    _delete_others(suite, name)


def _delete_others(suite: Suite, name: str | None) -> None:
    """Remove the files of what was public before."""
    try:
        _, files = default_storage.listdir(FOLDER)
    except FileNotFoundError:
        return
    for file in files:
        if file.startswith(_stem(suite)) and f"{FOLDER}/{file}" != name:
            default_storage.delete(f"{FOLDER}/{file}")


def enqueue(suite: Suite) -> None:
    """Ask a worker for the file; lost rings are rung again by the sweeper."""
    from leaderboard import queue

    queue.enqueue(suite.pk, queue.EXPORT, queue.GPU)


def stale() -> list[Suite]:
    """Suites whose file is not there, or not of what is public now."""
    suites = Suite.objects.frozen().filter(runs__current=True).defer("definition").distinct()
    names = ((suite, parquet_name(suite)) for suite in suites)
    return [suite for suite, name in names if name and not default_storage.exists(name)]


def bibtex(filters: BoardFilters) -> str:
    """A citation of this view: suite, version, hash, date and permalink."""
    suite, today = filters.suite, timezone.localdate()
    url = absolute(f"/?{filters.query()}")
    return (
        f"@misc{{convergebench-{suite.key}-{today:%Y%m%d},\n"
        "  title        = {ConvergeBench: convergence half-life of image-editing models},\n"
        "  author       = {{The ConvergeBench contributors}},\n"
        f"  year         = {{{today:%Y}}},\n"
        f"  howpublished = {{\\url{{{url}}}}},\n"
        f"  note         = {{Suite {suite.slug}, version {suite.version}, content hash "
        f"{suite.content_hash[:12]}; {formatting.metric_label(filters.metric)} at level "
        f"{filters.level:g}; accessed {today:%Y-%m-%d}}}\n"
        "}\n"
    )


def badge(standing: Standing | None) -> str:
    """An SVG badge: half-life and rank, for a model's README."""
    label = "ConvergeBench"
    if standing is None:
        text, colour = "not measured", "#6b7477"
    else:
        half_life = formatting.half_life(standing.half_life, standing.run.suite.trips)
        rank = f", rank {standing.rank}" if standing.rank else ""
        text, colour = f"half-life {half_life} trips{rank}", "#0d5c69"
    left, right = 8 + 6.6 * len(label), 12 + 6.3 * len(text)
    width = left + right + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="20" role="img" '
        f'aria-label="{escape(f"{label}: {text}")}"><title>{escape(f"{label}: {text}")}</title>'
        f'<rect width="{width:.0f}" height="20" rx="4" fill="#2b3437"/>'
        f'<path d="M{left:.0f} 0h{right + 4:.0f}a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4h-{right + 4:.0f}z" fill="{colour}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="7" y="14" textLength="{left - 12:.0f}">{label}</text>'
        f'<text x="{left + 6:.0f}" y="14" textLength="{right - 6:.0f}">{escape(text)}</text></g></svg>'
    )


def _cell(value: Any) -> Any:
    return "" if value is None else value


def _download(content_type: str, name: str) -> HttpResponse:
    response = HttpResponse(content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def scores_json(run: Run) -> Iterator[str]:
    """Every score of a run as a JSON list, streamed."""
    yield "["
    for place, values in enumerate(score_rows(run)):
        row = json.dumps(dict(zip(SCORE_COLUMNS, values, strict=True)))
        yield f",\n{row}" if place else f"\n{row}"
    yield "\n]\n"
