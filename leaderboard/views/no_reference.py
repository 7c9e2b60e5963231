"""The page on no-reference metrics: do they notice that images wear out?

These metrics rate the quality of an image without its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluation.analysis.no_reference import FIRST, SOURCE, reported_trips, share
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD, named
from evaluation.content.suites import find_suite
from evaluation.metrics import metric_class, no_reference_metrics
from evaluation.metrics.no_reference import WORN, no_reference_in_order
from leaderboard import formatting
from leaderboard.board.rows import played_suites
from leaderboard.board.rows import stamp as board_stamp
from leaderboard.models import Chain, NoReferenceResult, Run, Suite, Trip
from leaderboard.page_cache import cached_page, uncached
from leaderboard.pages.charts import (
    COLOURS,
    DASHES,
    MARKERS,
    Chart,
    Figure,
    Table,
    layout,
    plain,
    threshold_line,
    trace,
    value_after,
)
from leaderboard.text import attachment, csv_lines
from leaderboard.views.site import noindex_variants

PARAMETERS = ("suite", "trip", "since", "metric", "model")
SINCE = {SOURCE: "the source", FIRST: "the first restored image"}
SHADES = 7
#: A model's images count as worn if at least this share is lost by the last trip.
WORN_LOSS = 0.1
#: The results of the models on a suite's board; each is a line of the page's tables.
Lines = Sequence[NoReferenceResult]


def stamp() -> str:
    """Return a string that changes whenever the page's content changes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(computed_at), count(*) FROM leaderboard_noreferenceresult")
        results_stamp = "|".join(str(value) for value in cursor.fetchone())
    return f"{board_stamp()}|{results_stamp}"


@require_safe
@cached_page(stamp, PARAMETERS)
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    offered = played_suites()
    parameters = {name: request.GET.get(name, "") for name in PARAMETERS}
    suite = find_suite(parameters["suite"], offered) or next(iter(offered), None)
    context: dict[str, Any] = {"suites": offered, "suite": suite}
    if suite:
        context |= page(suite, parameters)
    response = render(request, "leaderboard/no_reference.html", context)
    valid_values: dict[str, Iterable[str]] = {
        "suite": [suite.key if suite else ""],
        "trip": map(str, context.get("trips", ())),
        "since": SINCE,
        "metric": dict(context.get("metrics", ())),
        "model": [line.run.editing_model.slug for line in context.get("lines", ())],
    }
    valid = all(value in ("", *valid_values[name]) for name, value in parameters.items())
    return response if valid else uncached(response)


def page(suite: Suite, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return the context of a suite's page; invalid parameters get their defaults."""
    lines = lines_of(suite)
    metrics, trips = metrics_of(lines), reported_trips(suite.trips)
    trip = next((n for n in trips if str(n) == parameters["trip"]), trips[-1])
    since = parameters["since"] if parameters["since"] in SINCE else SOURCE
    cell = selected_cell(lines, metrics, trip, parameters["model"], parameters["metric"])
    return {
        "lines": lines,
        "metrics": [(name, label(name, lines)) for name in metrics],
        "trips": trips,
        "trip": trip,
        "since": since,
        "since_choices": SINCE.items() if trip > 1 else (),
        "since_words": SINCE[since],
        "heat": heat(lines, metrics, trip, since),
        "totals": totals(lines, metrics, trip, since),
        "finding": finding(lines, metrics, trip),
        "chart": gain_chart(lines, cell.metric, suite) if cell else None,
        "opened": cell and cell.line,
        "metric_label": label(cell.metric, lines) if cell else "",
        "judged": rated_images(cell.line, cell.metric, trip) if cell and cell.line else [],
        "about": about_metrics(lines, metrics),
        "judge": judge_answers(lines),
    }


@require_safe
def table(request: HttpRequest) -> HttpResponse:
    """Serve the results of no-reference metrics on a suite as CSV."""
    offered = played_suites()
    suite = find_suite(request.GET.get("suite", ""), offered) or next(iter(offered), None)
    rows = [COLUMNS, *table_rows(suite, lines_of(suite))] if suite else []
    name = f"no-reference-{suite.key}.csv" if suite else "no-reference.csv"
    return HttpResponse(
        csv_lines(rows), content_type="text/csv; charset=utf-8", headers=attachment(name)
    )


@dataclass(frozen=True)
class Cell:
    """Counts of a model's restored images that a metric calls worse or better."""

    metric: str
    line: NoReferenceResult | None
    #: Counts of images; None if the metric was not run.
    counted: Mapping[str, Any] | None

    @property
    def worse(self) -> float | None:
        return share(self.counted) if self.counted else None

    @property
    def better(self) -> float | None:
        return share(self.counted, "better") if self.counted else None

    @property
    def shade(self) -> int:
        """Shade of the cell: darker if the metric calls more restored images better."""
        return min(SHADES - 1, int((self.better or 0.0) * SHADES))

    @property
    def summary(self) -> str:
        counted = self.counted
        if not counted or not counted["restored"]:
            return "no restored image to compare"
        same = counted["restored"] - counted["worse"] - counted["better"]
        parts = [f"{counted['worse']} called worse", f"{counted['better']} better"]
        parts += [f"{same} the same"] if same else []
        return f"of {formatting.count(counted['restored'], 'restored image')} {', '.join(parts)}"


def lines_of(suite: Suite) -> list[NoReferenceResult]:
    """Return the results of the models on a suite's board, the smallest loss first."""
    rows = NoReferenceResult.objects.filter(run__in=Run.objects.on_the_board().filter(suite=suite))
    rows = rows.select_related("run__editing_model").defer(
        "run__provenance", "run__editing_model__options"
    )
    return sorted(rows, key=lambda line: (line.lost, line.model_name))


def metrics_of(lines: Lines) -> list[str]:
    return no_reference_in_order({name for line in lines for name in line.numbers})


def heat(
    lines: Lines, metrics: Sequence[str], trip: int, since: str
) -> list[tuple[NoReferenceResult, list[Cell]]]:
    return [
        (line, [Cell(name, line, _counted(line, name, trip, since)) for name in metrics])
        for line in lines
    ]


def totals(lines: Lines, metrics: Sequence[str], trip: int, since: str) -> list[Cell]:
    """Return a cell for each metric with the counts of all models."""
    cells = []
    for name in metrics:
        counts = [c for line in lines if (c := _counted(line, name, trip, since))]
        added = {key: sum(c[key] for c in counts) for key in ("restored", "worse", "better")}
        cells.append(Cell(name, None, added if counts else None))
    return cells


def _counted(
    line: NoReferenceResult, metric: str, trip: int, since: str
) -> Mapping[str, Any] | None:
    numbers = line.numbers.get(metric)
    counted: Mapping[str, Any] | None = (
        numbers["trips"].get(str(trip), {}).get(since) if numbers else None
    )
    return counted


def label(metric: str, lines: Lines) -> str:
    """Return the metric's label as stored with its results."""
    numbers = (line.numbers[metric] for line in lines if metric in line.numbers)
    return str(next((row["label"] for row in numbers), metric))


def finding(lines: Lines, metrics: Sequence[str], trip: int) -> str:
    """Return the finding: which metric calls the largest share of worn images better."""
    worn = [line for line in lines if line.lost >= WORN_LOSS]
    cells = [cell for cell in totals(worn, metrics, trip, SOURCE) if cell.better is not None]
    if not cells:
        return ""
    worst = max(cells, key=lambda cell: cell.better or 0.0)
    name = label(worst.metric, lines)
    lost = [line.numbers[worst.metric]["lost"] for line in worn if worst.metric in line.numbers]
    ends = [curve[trip] for curve in lost if len(curve) > trip and curve[trip] is not None]
    lost_share = sum(ends) / len(ends) if ends else 0.0
    if not worst.better:
        return (
            f"No metric calls a worn image better than its source at trip {trip}, "
            f"where only {formatting.percent(1 - lost_share)} of the image is kept"
        )
    return (
        f"{name} calls {formatting.percent(worst.better)} of images better than their source at "
        f"trip {trip}, although only {formatting.percent(1 - lost_share)} of the image is kept"
    )


def gain_chart(lines: Lines, metric: str, suite: Suite) -> Chart | None:
    """Return the chart of the metric's gain against the share of the image lost, by trip."""
    shown = lines_with(metric, lines)
    if not shown:
        return None
    about = shown[0].numbers[metric]
    name = about["label"]
    unit = f"points of {name}’s range" if about["in_points"] else f"units of {name}"
    return Chart(
        id="plane",
        title=_gain_finding(shown, metric, name),
        subtitle="Each line starts at the source, at the left on the dotted line, and has a point "
        "for each trip. Above the dotted line the metric rates restored images better than the "
        "source. "
        "The line of a working metric falls.",
        figure=_gain_figure(shown, metric, unit),
        table=_gain_table(shown, metric, suite.trips),
        about=f"{suite}, {name}",
        file_name=f"{suite.key}-{metric}-plane",
    )


def _gain_finding(shown: Lines, metric: str, name: str) -> str:
    rising = [
        line
        for line in shown
        if (gained := line.numbers[metric]["gained"][-1]) is not None
        and gained > 0
        and line.lost >= WORN_LOSS
    ]
    if not rising:
        return f"{name} falls as images wear out, for every model"
    models = formatting.count(len(rising), "model")
    return f"{name} rises while images wear out, for {models} of {len(shown)}"


def _gain_figure(shown: Lines, metric: str, unit: str) -> Figure:
    traces = []
    for index, line in enumerate(shown):
        numbers = line.numbers[metric]
        points = [
            (n, lost, gained)
            for n, (lost, gained) in enumerate(zip(numbers["lost"], numbers["gained"], strict=True))
            if lost is not None and gained is not None
        ]
        reference = line.run.editing_model.is_reference
        colour = "var(--ink-3)" if reference else f"var(--series-{index % COLOURS + 1})"
        traces.append(
            trace(
                line.model_name,
                mode="lines+markers",
                x=[lost for _, lost, _ in points],
                y=[gained for _, _, gained in points],
                text=[f"<b>{plain(line.model_name)}</b><br>trip {n}" for n, _, _ in points],
                hovertemplate="%{text}<br>%{x:.0%} lost, %{y:+.1f}<extra></extra>",
                line={"color": colour, "width": 1.8, "dash": DASHES[index % len(DASHES)]},
                marker={"color": colour, "size": 6, "symbol": MARKERS[index % len(MARKERS)]},
            )
        )
    largest = max([0.1, *(lost for line in traces for lost in line["x"])])
    return {
        "data": traces,
        "layout": layout(
            xaxis={
                "title": {"text": "share of the image lost"},
                "tickformat": ".0%",
                "range": [-0.02 * largest, 1.04 * largest],
            },
            yaxis={"title": {"text": f"gained, {unit}"}},
            shapes=[threshold_line(0, "dot")],
        ),
    }


def _gain_table(shown: Lines, metric: str, trips: int) -> Table:
    def number(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form).replace("-", "−")

    columns = reported_trips(trips)
    rows = []
    for line in shown:
        numbers = line.numbers[metric]
        rows.append(
            [
                line.model_name,
                *(
                    f"{number(numbers['lost'][n], '.0%')} lost, "
                    f"{number(numbers['gained'][n], '+.1f')}"
                    for n in columns
                ),
            ]
        )
    return Table(["Model", *(f"Trip {n}" for n in columns)], rows)


def selected_cell(
    lines: Lines, metrics: Sequence[str], trip: int, model: str, metric: str
) -> Cell | None:
    """Return the requested cell, or the cell with the largest share of images called better."""
    if not lines or not metrics:
        return None
    cells = [
        cell
        for _, row in heat(lines, [metric] if metric in metrics else metrics, trip, SOURCE)
        for cell in row
        if cell.line and cell.counted
    ]
    of_model = [cell for cell in cells if cell.line and cell.line.run.editing_model.slug == model]
    return max(
        of_model or [c for c in cells if c.line and c.line.lost >= WORN_LOSS] or cells,
        key=lambda cell: cell.better or 0.0,
        default=None,
    )


def rated_images(line: NoReferenceResult, metric: str, trip: int) -> list[dict[str, Any]]:
    """Return the restored images that the metric calls better, then those it calls worse."""
    cases = line.numbers[metric]["trips"].get(str(trip), {})
    better, worse = cases.get("better_cases", []), cases.get("worse_cases", [])
    order = {case: index for index, case in enumerate([*better, *worse])}
    chains = Chain.objects.filter(run=line.run, case__in=order, repeat=0)
    chains = chains.select_related("case__image__stored")
    ordered = sorted(chains, key=lambda chain: order[chain.case_id])
    trips = Trip.objects.filter(chain__in=ordered, number=trip).select_related("restored")
    restored = {row.chain_id: row.restored for row in trips}
    return [
        {
            "chain": chain,
            "source": chain.case.image.stored,
            "restored": restored.get(chain.pk),
            "before": value_after(chain.quality.get(metric) or (), 0),
            "after": value_after(chain.quality.get(metric) or (), trip),
            "kept": chain.retention_after(chain.headline, trip),
            "better": chain.case_id in better,
        }
        for chain in ordered
    ]


def about_metrics(lines: Lines, metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return the metrics with their versions, then the metrics that were not run."""
    rows = []
    for name in metrics:
        numbers = [line.numbers[name] for line in lines if name in line.numbers]
        rows.append(
            {
                "label": numbers[0]["label"],
                "better": "higher" if numbers[0]["higher_is_better"] else "lower",
                "versions": ", ".join(sorted({row["version"] for row in numbers})),
                "where": _where(name, numbers[0]),
                "models": len(numbers),
            }
        )
    absent = [metric_class(n).label for n in no_reference_metrics() if n not in metrics]
    return rows + [{"label": name, "absent": True} for name in absent]


def judge_answers(lines: Lines) -> dict[str, Any]:
    """Return how often the judge, a vision-language model, calls images worn, by retention.

    Returns {} without answers.
    """
    rows = []
    for line in lines:
        numbers = line.numbers.get(WORN)
        if numbers is None or numbers["value"][0] is None:
            continue
        cells = [
            (band["worn"] / band["asked"] if band["asked"] else None, band["asked"])
            for band in numbers["by_kept"]
        ]
        # Source images that the judge calls worn are false alarms.
        rows.append({"line": line, "alarms": numbers["value"][0], "cells": cells})
    if not rows:
        return {}
    bands = lines_with(WORN, lines)[0].numbers[WORN]["by_kept"]
    return {
        "rows": rows,
        "bands": [(band["least"], band["most"]) for band in bands],
        "finding": _judge_finding([line.numbers[WORN] for line in lines_with(WORN, lines)]),
        "judges": sorted({row["line"].numbers[WORN]["version"] for row in rows}),
    }


def lines_with(metric: str, lines: Lines) -> list[NoReferenceResult]:
    return [line for line in lines if metric in line.numbers]


def _judge_finding(results: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence on the share of damaged images that the judge notices."""
    damaged = [
        band
        for result in results
        for band in result["by_kept"]
        if band["most"] <= DEFAULT_THRESHOLD
    ]
    judged_count, worn = (sum(band[name] for band in damaged) for name in ("asked", "worn"))
    if not judged_count:
        return f"The judge has answered, but no restored image is {named()} yet"
    return (
        f"Asked directly, the judge calls {formatting.percent(worn / judged_count)} of the "
        f"{named()} images worn"
    )


def _where(name: str, result: Mapping[str, Any]) -> str:
    if name == WORN:
        return "here, by a vision-language model"
    return "elsewhere, imported as a score file" if result["imported"] else "here"


COLUMNS = (
    *("suite", "model", "run", "metric", "version", "higher_is_better", "imported", "trip"),
    *("since", "restored", "worse", "better", "gap", "mean_value", "mean_gained", "mean_lost"),
)


def table_rows(suite: Suite, lines: Lines) -> Iterator[list[Any]]:
    """Yield a row for each model, metric, trip and image that restored images are compared with."""
    for line in lines:
        for metric, numbers in line.numbers.items():
            for trip, both in numbers["trips"].items():
                for since in SINCE:
                    if counted := both.get(since):
                        yield [
                            *(suite.key, line.run.editing_model.slug, line.run.pk, metric),
                            *(numbers["version"], numbers["higher_is_better"], numbers["imported"]),
                            *(trip, since, *(counted[name] for name in COLUMNS[9:13])),
                            *(numbers[name][int(trip)] for name in ("value", "gained", "lost")),
                        ]
