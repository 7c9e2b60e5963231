"""Scores as tables: CSV and JSON of a run, Parquet of a whole suite."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db.models import Max
from django.utils import timezone

from evaluation.measuring.calibration import retention
from evaluation.metrics.no_reference import value_scale
from evaluation.records import ScoreRecord
from leaderboard.models import Calibration, Run, Score, Suite
from leaderboard.standings import quality_metrics
from leaderboard.text import csv_lines

FOLDER = "exports"
COLUMNS = tuple(ScoreRecord.model_fields)


def score_records(run: Run) -> Iterator[ScoreRecord]:
    """Yield the scores of a run with their case, chain and trip, in stable order."""
    blanks = _blanks(run)
    scores = (
        Score.objects.filter(trip__chain__run=run)
        .select_related("metric", "trip__chain__case__image")
        .order_by("trip__chain__case__position", "trip__chain__repeat", "trip__number", "metric")
    )
    for score in scores.iterator(chunk_size=2000):
        trip = score.trip
        chain, case = trip.chain, trip.chain.case
        blank = blanks.get((case.image.pixels_sha256, score.metric_id))
        yield ScoreRecord(
            run=run.pk,
            model=run.editing_model.slug,
            played=run.played,
            suite=run.suite.key,
            case=case.slug,
            image=case.image.slug,
            pair=case.pair_slug,
            category=case.category,
            kind=case.kind,
            origin=case.origin,
            repeat=chain.repeat,
            trip=trip.number,
            outcome=chain.outcome,
            change_seen=trip.change_seen,
            reframed=trip.reframed,
            metric=score.metric.name,
            metric_version=score.metric.version,
            distance=score.distance,
            retention=retention(score.distance, blank),
        )


def _blanks(run: Run) -> dict[tuple[str, int], float]:
    pixels = run.suite.images.values_list("pixels_sha256", flat=True)
    rows = Calibration.objects.filter(pixels_sha256__in=list(pixels))
    return {
        (sha, metric): blank
        for sha, metric, blank in rows.values_list("pixels_sha256", "metric_id", "blank")
    }


def scores_csv(run: Run) -> Iterator[str]:
    """Yield the scores of a run as lines of CSV, so that memory stays small."""
    yield from csv_lines([COLUMNS])
    yield from csv_lines((value for _, value in record) for record in score_records(run))


def scores_json(run: Run) -> Iterator[str]:
    """Yield the scores of a run as a JSON list."""
    yield "["
    for index, record in enumerate(score_records(run)):
        row = json.dumps(record.model_dump())
        yield f",\n{row}" if index else f"\n{row}"
    yield "\n]\n"


def quality_csv(run: Run) -> Iterator[str]:
    """Yield the values of no-reference metrics on every image of a run as CSV.

    The lines form a score file for `import_results scores` on a site where the metrics do not run.
    Trip 0 is the source.
    """
    yield from csv_lines(
        [("case", "repeat", "trip", "metric", "value", "version", "higher_is_better")]
    )
    pinned = quality_metrics(run)
    scales = {name: value_scale(name, values) for name, values in pinned.items()}
    chains = run.chains.select_related("case").only("case__slug", "repeat", "quality")
    for chain in chains.order_by("case__position", "repeat").iterator(chunk_size=200):
        for name, scale in scales.items():
            about_metric = (pinned[name].get("version"), scale and scale.higher_is_better)
            yield from csv_lines(
                (chain.case.slug, chain.repeat, trip, name, value, *about_metric)
                for trip, value in enumerate(chain.quality.get(name, ()))
            )


# The Parquet file of a suite, written to storage by a worker.


def file_name(suite: Suite) -> str | None:
    """Return the name of the file with a suite's public scores; None if no run is public.

    The name depends on the runs on the board and their results. So an outdated file is not served
    after a run is published, withdrawn or scored again.
    """
    runs = Run.objects.on_the_board().filter(suite=suite)
    # Standings (stored results) are replaced whenever a run is scored, so their keys identify
    # the results.
    runs_written = runs.order_by("pk").values_list("pk").annotate(written=Max("standings__pk"))
    if not runs_written:
        return None
    stamp = hashlib.sha256(repr([suite.content_hash, *runs_written]).encode()).hexdigest()[:16]
    return f"{FOLDER}/{_stem(suite)}{stamp}.parquet"


def _stem(suite: Suite) -> str:
    return f"{suite.key}-scores-"


def stale() -> list[Suite]:
    """Return the suites whose current file is not written yet."""
    suites = Suite.objects.frozen().filter(runs__current=True).defer("definition").distinct()
    names = ((suite, file_name(suite)) for suite in suites)
    return [suite for suite, file in names if file and not default_storage.exists(file)]


def write(suite: Suite) -> None:
    """Write the current file of a suite if it does not exist, and delete older files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = file_name(suite)
    if file and not default_storage.exists(file):
        runs = Run.objects.on_the_board().filter(suite=suite)
        runs = runs.select_related("editing_model", "suite").order_by("pk")
        rows = [row for run in runs for row in score_records(run)]
        table = pa.table({name: pa.array([getattr(row, name) for row in rows]) for name in COLUMNS})
        metadata = {"suite": suite.key, "content_hash": suite.content_hash}
        metadata |= {"written": f"{timezone.now():%Y-%m-%d}"}
        buffer = io.BytesIO()
        pq.write_table(table.replace_schema_metadata(metadata), buffer, compression="zstd")
        default_storage.save(file, ContentFile(buffer.getvalue()))
    _delete_others(suite, file)


def _delete_others(suite: Suite, current: str | None) -> None:
    """Delete the suite's files except the current one."""
    try:
        _, files = default_storage.listdir(FOLDER)
    except FileNotFoundError:
        return
    for file in files:
        if file.startswith(_stem(suite)) and f"{FOLDER}/{file}" != current:
            default_storage.delete(f"{FOLDER}/{file}")
