"""Half-life against price or time as a chart, with the line of those that nobody beats."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log10

from leaderboard import formatting
from leaderboard.board import value
from leaderboard.board.row import BoardFilters
from leaderboard.board.value import Cost, Point
from leaderboard.pages.charts import Chart, Figure, Table, layout, plain
from leaderboard.pages.inline_svg import axis_ticks

#: What a marker says of a model's weights.
WEIGHTS = {
    True: ("open weights", "--series-3", "diamond"),
    False: ("closed weights", "--series-1", "circle"),
    None: ("weights unknown", "--series-5", "square"),
}


def chart(points: Sequence[Point], cost: Cost, filters: BoardFilters, left_out: int) -> Chart:
    """The chart of these points; `left_out` models have no known cost."""
    missing = (
        f" {formatting.count(left_out, 'model')} without a known "
        f"{'time' if cost.is_time else 'price'} "
        f"{'is' if left_out == 1 else 'are'} not shown."
        if left_out
        else ""
    )
    return Chart(
        id="value",
        title=value.finding(points, cost),
        subtitle=f"{cost.label} against half-life by {formatting.metric_label(filters.metric)}. "
        "Up and to the left is better; nobody beats the models on the line at both. "
        f"Thin lines join hosts of the same weights.{missing}",
        figure=figure(points, cost, filters.suite.trips),
        table=table(points, cost, filters.suite.trips),
        about=f"{filters.suite}, by {formatting.metric_label(filters.metric)}",
        file_name=f"{filters.suite.key}-{filters.metric}-{cost.name}",
    )


def figure(points: Sequence[Point], cost: Cost, trips: int) -> Figure:
    best = [point for point in points if point.best]
    traces = [*_links(points), *_line(best)]
    traces += [
        _markers([p for p in points if p.row.model.open_weights is kind], kind, cost, trips)
        for kind in WEIGHTS
        if any(point.row.model.open_weights is kind for point in points)
    ]
    # Prices spread over decades; a free model has no place on such an axis.
    spread = bool(points) and all(p.cost > 0 for p in points)
    wide = spread and points[-1].cost > 8 * points[0].cost
    ends = axis_ticks(trips)
    return {
        "data": traces,
        "layout": layout(
            xaxis={
                "title": {"text": cost.axis},
                **(_decades(points, cost) if wide else {"rangemode": "tozero"}),
            },
            yaxis={
                "title": {"text": "half-life in round trips"},
                "tickvals": ends,
                # What was not reached is drawn at the suite's end.
                "ticktext": [*(str(n) for n in ends[:-1]), f"{trips} or more"],
                "range": [-0.03 * trips, 1.08 * trips],
            },
            annotations=[_name(point, wide) for point in best[-6:]],
        ),
    }


def _decades(points: Sequence[Point], cost: Cost) -> Figure:
    """An axis of powers, with round numbers where there are points."""
    low, high = points[0].cost / 1.5, points[-1].cost * 1.5
    marks = [digit * 10.0**power for power in range(-5, 5) for digit in (1, 2, 5)]
    shown = [mark for mark in marks if low <= mark <= high]
    return {
        "type": "log",
        "tickvals": shown,
        "ticktext": [cost.text(mark) for mark in shown],
        "range": [log10(low), log10(high)],
    }


def table(points: Sequence[Point], cost: Cost, trips: int) -> Table:
    rows = [
        [
            point.name,
            cost.text(point.cost),
            formatting.half_life(point.row.standing.half_life, trips),
            "yes" if point.best else "–",
        ]
        for point in points
        if point.row.standing
    ]
    return Table(["Model", cost.label, "Half-life", "Nobody beats it"], rows)


def _markers(points: Sequence[Point], kind: bool | None, cost: Cost, trips: int) -> Figure:
    name, colour, symbol = WEIGHTS[kind]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "legendgroup": name,
        "x": [round(point.cost, 5) for point in points],
        "y": [round(point.height, 3) for point in points],
        "text": [f"<b>{plain(point.name)}</b><br>{_words(point, cost, trips)}" for point in points],
        "hovertemplate": "%{text}<extra></extra>",
        "line": {"color": f"var({colour})"},
        "marker": {"color": f"var({colour})", "symbol": symbol, "size": 10},
    }


def _words(point: Point, cost: Cost, trips: int) -> str:
    standing = point.row.standing
    life = formatting.half_life(standing.half_life if standing else None, trips)
    return f"half-life {life}, {cost.text(point.cost)} {cost.label.lower()}"


def _line(best: Sequence[Point]) -> list[Figure]:
    if len(best) < 2:
        return []
    name = "nobody beats these"
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "legendgroup": name,
            "x": [round(point.cost, 5) for point in best],
            "y": [round(point.height, 3) for point in best],
            "hoverinfo": "skip",
            "line": {"color": "var(--series-2)", "width": 2, "shape": "hv"},
        }
    ]


def _links(points: Sequence[Point]) -> list[Figure]:
    """One trace for all, with a gap between groups."""
    pairs = [pair for group in value.same_weights(points) for pair in pairwise(group)]
    if not pairs:
        return []
    name = "same weights"
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "legendgroup": name,
            "x": [place for a, b in pairs for place in (round(a.cost, 5), round(b.cost, 5), None)],
            "y": [
                place for a, b in pairs for place in (round(a.height, 3), round(b.height, 3), None)
            ],
            "hoverinfo": "skip",
            "line": {"color": "var(--ink-3)", "width": 1.2, "dash": "dot"},
        }
    ]


def _name(point: Point, log: bool) -> Figure:
    return {
        "text": plain(point.name),
        "x": log10(point.cost) if log else point.cost,
        "y": point.height,
        "xanchor": "left",
        "yanchor": "bottom",
        "xshift": 6,
        "yshift": 3,
        "showarrow": False,
        "font": {"size": 12, "color": "var(--ink-2)"},
    }
