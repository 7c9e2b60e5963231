"""Charts of numbers that others published, on each metric's own scale.

The numbers are SSIM, PSNR or CLIP similarity of other images and edits. They cannot be converted
to retention, the share kept, which is calibrated on our images. So they are never ranked or mixed
with our numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any

from evaluation.content.suites import ticks
from evaluation.metrics import HEADLINE, METRICS, MetricError, in_order, metric_class
from leaderboard import formatting, published_figures
from leaderboard.models import PublishedFigure
from leaderboard.pages.charts import (
    DASHES,
    MARKERS,
    NAME_AND_TEXT,
    Chart,
    Figure,
    Source,
    Table,
    layout,
    plain,
    rounded,
    series_colour,
    trace,
    trips_axis,
)
from leaderboard.pages.model_page import RunResults
from leaderboard.text import skeleton

ELSEWHERE = "published elsewhere"
#: The number of published curves shown at first beside a model's own curve, and of further curves
#: that the legend can add.
LINES, MORE_LINES = 4, 4
OPEN_MARKERS = ("circle-open", "square-open", "diamond-open", "triangle-up-open")
#: The metric of the first chart; the charts of other metrics follow in display order.
FIRST_METRIC = "ssim"
#: Help for reading a metric's own scale.
SCALES = {
    "ssim": "1 means an identical image. A blank card of one colour scores about "
    f"{published_figures.BLANK_SSIM:g}.",
    "psnr": "3 dB less means twice the mean squared error. That error is averaged over the cases.",
    "clip": "1 means an image with the same content.",
}
#: Known faults of a source that its numbers do not reveal.
FAULTS = {
    published_figures.SLUG: "LPIPS was never computed there: the zeros in its table are not results."
}


@dataclass(frozen=True)
class ReportedLine:
    """Published values of a model from one source, by trip."""

    model: str
    source: str
    url: str
    published_on: date | None
    values: Mapping[int, float]
    #: Number of cases by trip, if it is known.
    cases: Mapping[int, int]

    @property
    def citation(self) -> str:
        """Source and date: "A paper, 1 February 2026"."""
        day = self.published_on
        return f"{self.source}, {day.day} {day:%B %Y}" if day else self.source

    @property
    def name(self) -> str:
        return f"{self.model} ({ELSEWHERE})"

    @property
    def number_of_cases(self) -> str:
        """The number of cases: "66", or "56–57" if it differs by trip; "–" if it is unknown."""
        if not self.cases:
            return "–"
        low, high = min(self.cases.values()), max(self.cases.values())
        return f"{high}" if low == high else f"{low}–{high}"

    @property
    def with_cases(self) -> str:
        """The model with its cases: "Nano Banana (66 cases)"."""
        if not self.cases:
            return self.model
        noun = "case" if self.number_of_cases == "1" else "cases"
        return f"{self.model} ({self.number_of_cases} {noun})"


def group_lines(values: Iterable[PublishedFigure]) -> list[ReportedLine]:
    """Group the values of one metric into a line for each model and source."""
    by_source: dict[tuple[str, str], list[PublishedFigure]] = {}
    for value in values:
        by_source.setdefault((value.model_name, value.source), []).append(value)
    return [
        ReportedLine(
            name,
            source,
            rows[0].source_url,
            rows[0].published_on,
            {row.trip: row.value for row in rows},
            {row.trip: row.cases for row in rows if row.cases},
        )
        for (name, source), rows in by_source.items()
    ]


# The page "Reported by others": a report for each source, a chart for each of its metrics.


@dataclass(frozen=True)
class Report:
    """The numbers of one source: its models in alphabetical order, a chart per metric."""

    source: str
    url: str
    published_on: date | None
    models: list[str]
    charts: list[Chart]

    @property
    def fault(self) -> str:
        return FAULTS.get(self.source, "")


def reports() -> list[Report]:
    """Return a report for each source, the newest first, in one query."""
    figures = PublishedFigure.objects.order_by("source", "model_name", "trip", "pk")
    by_source = groupby(figures, lambda figure: figure.source)
    all_reports = [
        _report(n, source, list(values)) for n, (source, values) in enumerate(by_source, 1)
    ]
    return sorted(all_reports, key=lambda report: report.published_on or date.min, reverse=True)


def _report(number: int, source: str, figures: Sequence[PublishedFigure]) -> Report:
    by_metric: dict[str, list[PublishedFigure]] = {}
    for figure in figures:
        by_metric.setdefault(figure.metric, []).append(figure)
    names = sorted(in_order(by_metric), key=lambda name: name != FIRST_METRIC)
    return Report(
        source,
        figures[0].source_url,
        figures[0].published_on,
        sorted({figure.model_name for figure in figures}, key=str.casefold),
        [
            _chart(f"reported-{number}-{name}", source, name, group_lines(by_metric[name]))
            for name in names
        ],
    )


def _chart(key: str, source: str, metric: str, lines: Sequence[ReportedLine]) -> Chart:
    """Return a chart of a metric's curves. The title states their range and names no model."""
    numbers = sorted({number for line in lines for number in line.values})
    first, last = numbers[0], numbers[-1]
    label = formatting.metric_label(metric)
    low, high = _range(lines, first, metric), _range(lines, last, metric)
    traces = [_reported_trace(line, index, metric) for index, line in enumerate(lines)]
    columns = sorted({first, *({3, 5, 10, 20} & set(numbers)), last})
    return Chart(
        id=key,
        title=f"{label}: {low} {formatting.after_round_trips(first)}, {high} "
        f"{formatting.after_round_trips(last)}"
        if last > first
        else f"{label} {formatting.after_round_trips(first)}",
        subtitle=SCALES.get(metric, ""),
        figure={
            "data": traces,
            "layout": layout(
                xaxis=trips_axis(last, 1.02),
                yaxis={"title": {"text": own_scale(metric)}, "rangemode": "tozero"},
            ),
        },
        table=Table(
            # The column heads are short, so that the table fits next to its chart.
            ["Model", "Cases", *(f"{n}" if n in columns[1:] else f"After {n}" for n in columns)],
            [
                [
                    line.model,
                    line.number_of_cases,
                    *(formatting.metric_value(line.values.get(n), metric) for n in columns),
                ]
                for line in lines
            ],
        ),
        height="short",
        about=f"Reported by {source}, not measured here",
        file_name=f"reported-{metric}",
    )


def _range(lines: Sequence[ReportedLine], number: int, metric: str) -> str:
    """Return the range of the values at a trip: "0.72 to 0.84"; one value if all are equal."""
    digits = metric_class(metric).digits - (metric != "psnr") if metric in METRICS else 2
    values = [line.values[number] for line in lines if number in line.values]
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    unit = f"\u00a0{metric_class(metric).unit}" if metric in METRICS else ""
    return f"{low} to {high}{unit}".rstrip() if low != high else f"{low}{unit}".rstrip()


def _reported_trace(line: ReportedLine, index: int, metric: str) -> Figure:
    numbers = sorted(line.values)
    values = [line.values[number] for number in numbers]
    texts = [
        formatting.metric_value(value, metric)
        + (f", {formatting.count(line.cases[n], 'case')}" if n in line.cases else "")
        for n, value in zip(numbers, values, strict=True)
    ]
    colour = series_colour(index)
    return _trace(line.with_cases, numbers, values, texts) | {
        "line": {"color": colour, "width": 1.8},
        "marker": {"color": colour, "symbol": OPEN_MARKERS[index % len(OPEN_MARKERS)], "size": 7},
    }


# The page of a model: its own values and published ones


def published_chart(results: RunResults) -> Chart | None:
    """Return a chart of the model's and of published values; None if nothing is published.

    The chart is by the chosen metric. No one else publishes our headline metric: if the headline
    is chosen, the chart is by the first metric with published values.
    """
    if results.run.suite.published_elsewhere:  # this suite shows the published values already
        return None
    wanted = list(results.standings) if results.metric == HEADLINE else [results.metric]
    by_metric: dict[str, list[PublishedFigure]] = {}
    for value in PublishedFigure.objects.filter(metric__in=wanted):
        by_metric.setdefault(value.metric, []).append(value)
    metric = next(iter(in_order(by_metric)), "")
    # Values after 0..N trips; the value after 0 was not measured.
    values = results.standings[metric].curve.get("shown") if metric else None
    if not values:
        return None
    name, trips, label = (
        results.run.editing_model.name,
        results.trips,
        formatting.metric_label(metric),
    )
    theirs = _published_lines(by_metric[metric], name)
    last = max(trips, *(number for line in theirs for number in line.values))
    traces = [_our_trace(name, values, metric)]
    traces += [_their_trace(line, index, metric) for index, line in enumerate(theirs)]
    return Chart(
        id="published",
        title=f"{label} after each round trip, here and as published by others",
        subtitle="On the metric’s own scale. Dotted lines with open marks were published elsewhere, "
        "for other images and other edits. They only give context: they are not our measurements, "
        "and are never ranked.",
        figure={
            "data": traces,
            "layout": layout(
                xaxis=trips_axis(last, 1.02), yaxis={"title": {"text": own_scale(metric)}}
            ),
        },
        table=_published_table(name, values, theirs, trips, metric),
        sources=[Source(f"{line.model}: {line.citation}", line.url) for line in theirs],
    )


def _published_lines(values: Sequence[PublishedFigure], model: str) -> list[ReportedLine]:
    """Return the lines of a metric: first those of `model`, then those with the most trips."""
    same = skeleton(model)
    lines = sorted(
        group_lines(values),
        key=lambda line: (skeleton(line.model) != same, -len(line.values), line.model),
    )
    return lines[: LINES + MORE_LINES]


def _our_trace(name: str, values: Sequence[float | None], metric: str) -> Figure:
    colour = "var(--series-1)"
    texts = [formatting.metric_value(value, metric) for value in values]
    return _trace(name, range(len(values)), values, texts) | {
        "line": {"color": colour, "dash": DASHES[0], "width": 2.2},
        "marker": {"color": colour, "symbol": MARKERS[0], "size": 6},
    }


def _their_trace(line: ReportedLine, index: int, metric: str) -> Figure:
    numbers = sorted(line.values)
    values = [line.values[number] for number in numbers]
    texts = [
        f"{formatting.metric_value(value, metric)}<br>{plain(line.citation)}" for value in values
    ]
    colour = "var(--ink-3)"
    symbol = OPEN_MARKERS[index % len(OPEN_MARKERS)]
    return _trace(line.name, numbers, values, texts) | {
        # Two sources may report the same model; each gets its own legend button.
        "legendgroup": f"{plain(line.name)} {index}",
        "line": {"color": colour, "dash": "dot", "width": 1.4},
        "marker": {"color": colour, "symbol": symbol, "size": 8},
        "visible": "legendonly" if index >= LINES else True,
    }


def _trace(name: str, x: Any, y: Any, texts: Sequence[str]) -> Figure:
    return trace(
        name,
        mode="lines+markers",
        x=list(x),
        y=rounded(y),
        text=[
            f"{formatting.after_round_trips(n)}: {words}" for n, words in zip(x, texts, strict=True)
        ],
        hovertemplate=NAME_AND_TEXT,
    )


def own_scale(metric: str) -> str:
    """Return the title of an axis: "PSNR, dB (higher is better)"."""
    try:
        scale = metric_class(metric)
    except MetricError:
        return metric
    better = "higher is better" if scale.higher_is_better else "lower is better"
    return f"{scale.label}{f', {scale.unit}' if scale.unit else ''} ({better})"


def _published_table(
    name: str,
    values: Sequence[float | None],
    theirs: Sequence[ReportedLine],
    trips: int,
    metric: str,
) -> Table:
    """Return a table of our values at the trips of `ticks` and of all published values."""
    numbers = sorted({*ticks(trips), *(n for line in theirs for n in line.values)})
    lines: list[tuple[str, Mapping[int, float | None], str]] = [
        (name, dict(enumerate(values)), "measured here")
    ]
    lines += [(line.name, line.values, line.citation) for line in theirs]
    return Table(
        ["Model", *(formatting.after_round_trips(number) for number in numbers), "Source"],
        [
            [model, *(formatting.metric_value(by_trip.get(n), metric) for n in numbers), source]
            for model, by_trip, source in lines
        ],
    )
