"""What others published, drawn beside our own: context on a metric's own scale, never a rank.

Published values are SSIM, dB, LPIPS of other pictures and other edits. They cannot be turned
into "picture kept", which is calibrated on each of our pictures, so they have a chart of
their own, with our values on the same scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from evaluation.content.suites import ticks
from evaluation.metrics import HEADLINE, MetricError, in_order, metric_class
from leaderboard import formatting
from leaderboard.models import PublishedFigure
from leaderboard.pages.charts import (
    DASHES,
    MARKERS,
    Chart,
    Figure,
    Source,
    Table,
    axis_numbers,
    layout,
    plain,
    rounded,
)
from leaderboard.text import skeleton

ELSEWHERE = "published elsewhere"
#: Lines drawn at once, and those the legend can add.
LINES, MORE_LINES = 4, 4
OPEN = ("circle", "square", "diamond", "triangle-up")


@dataclass(frozen=True)
class Line:
    """The figures of one model from one source, by trip."""

    model: str
    source: str
    url: str
    published_on: date | None
    values: Mapping[int, float]

    @property
    def citation(self) -> str:
        """ "A paper, 1 February 2026"."""
        day = self.published_on
        return f"{self.source}, {day.day} {day:%B %Y}" if day else self.source

    @property
    def name(self) -> str:
        return f"{self.model} ({ELSEWHERE})"


def lines(figures: Iterable[PublishedFigure], first: str) -> list[Line]:
    """The published figures of one metric; those of the model `first` at the top."""
    found: dict[tuple[str, str], list[PublishedFigure]] = {}
    for figure in figures:
        found.setdefault((figure.model_name, figure.source), []).append(figure)
    made = [
        Line(
            model,
            source,
            figures[0].source_url,
            figures[0].published_on,
            {figure.trip: figure.value for figure in figures},
        )
        for (model, source), figures in found.items()
    ]
    # The longest first: a line tells more than a point.
    own = skeleton(first)
    made.sort(key=lambda line: (skeleton(line.model) != own, -len(line.values), line.model))
    return made[: LINES + MORE_LINES]


def chart(
    name: str, ours: Mapping[str, Sequence[float | None]], chosen: str, trips: int
) -> Chart | None:
    """A model's curve on a metric's own scale with what others published; None where they did not.

    `ours` are our values by metric after 0..N trips; nothing is measured at 0. By the chosen
    metric, or where that is our own headline, by the first that others published.
    """
    wanted = list(ours) if chosen == HEADLINE else [chosen]
    by_metric: dict[str, list[PublishedFigure]] = {}
    for figure in PublishedFigure.objects.filter(metric__in=wanted):
        by_metric.setdefault(figure.metric, []).append(figure)
    metric = next(iter(in_order(by_metric)), "")
    values = ours.get(metric, ())
    if not metric or not values:
        return None
    theirs = lines(by_metric[metric], name)
    label = formatting.metric_label(metric)
    last = max(trips, *(number for line in theirs for number in line.values))
    traces = [_ours(name, values, metric)]
    traces += [_theirs(line, place, metric) for place, line in enumerate(theirs)]
    return Chart(
        id="published",
        title=f"{label} after each round trip, beside what others published",
        subtitle=f"On the scale of {label} itself. Dotted lines with open marks were published "
        "elsewhere, on other pictures and other edits: they are context, take no part in any "
        "rank, and are not our measurements.",
        figure={"data": traces, "layout": _layout(metric, last)},
        table=_table(name, values, theirs, trips, metric),
        sources=[Source(f"{line.model}: {line.citation}", line.url) for line in theirs],
    )


def _ours(name: str, values: Sequence[float | None], metric: str) -> Figure:
    colour = "var(--series-1)"
    texts = [_value(value, metric) for value in values]
    return _trace(name, range(len(values)), values, texts) | {
        "line": {"color": colour, "dash": DASHES[0], "width": 2.2},
        "marker": {"color": colour, "symbol": MARKERS[0], "size": 6},
    }


def _theirs(line: Line, place: int, metric: str) -> Figure:
    numbers = sorted(line.values)
    values = [line.values[number] for number in numbers]
    texts = [f"{_value(value, metric)}<br>{plain(line.citation)}" for value in values]
    colour = "var(--ink-3)"
    trace = _trace(line.name, numbers, values, texts) | {
        "line": {"color": colour, "dash": "dot", "width": 1.4},
        "marker": {"color": colour, "symbol": f"{OPEN[place % len(OPEN)]}-open", "size": 8},
    }
    # Two sources may name one model; each has a button of its own.
    trace["legendgroup"] = f"{trace['name']} {place}"
    return trace | ({"visible": "legendonly"} if place >= LINES else {})


def _trace(name: str, x: Any, y: Any, texts: Sequence[str]) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(name),
        "legendgroup": plain(name),
        "x": list(x),
        "y": rounded(y),
        "text": [f"{formatting.after(n)}: {words}" for n, words in zip(x, texts, strict=True)],
        "hovertemplate": "<b>%{fullData.name}</b><br>%{text}<extra></extra>",
    }


def _layout(metric: str, last: int) -> Figure:
    try:
        scale = metric_class(metric)
        better = "higher is better" if scale.higher_is_better else "lower is better"
        title = f"{scale.label}{f', {scale.unit}' if scale.unit else ''} ({better})"
    except MetricError:
        title = metric
    return layout(
        xaxis={
            "title": {"text": "round trips"},
            "tickvals": axis_numbers(last),
            "range": [0, last * 1.02],
        },
        yaxis={"title": {"text": title}},
    )


def _table(
    name: str,
    values: Sequence[float | None],
    theirs: Sequence[Line],
    trips: int,
    metric: str,
) -> Table:
    """The same values; ours at the trips people read, theirs wherever they have one."""
    numbers = sorted({*ticks(trips), *(n for line in theirs for n in line.values)})
    ours = dict(enumerate(values))
    rows = [
        [who, *(_value(found.get(n), metric) for n in numbers), source]
        for who, found, source in (
            (name, ours, "measured here"),
            *((line.name, line.values, line.citation) for line in theirs),
        )
    ]
    return Table(["Model", *(formatting.after(number) for number in numbers), "Source"], rows)


def _value(value: float | None, metric: str) -> str:
    return "–" if value is None else formatting.own_value(value, metric)
