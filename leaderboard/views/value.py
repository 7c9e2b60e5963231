"""The price page: price or time against usable trips, and the unbeaten models.

A model is unbeaten if no cheaper (or faster) model lasts as long.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard import formatting
from leaderboard.board.query import PARAMETERS, BoardQuery
from leaderboard.board.row import BoardFilters, BoardRow, board_order, judges_of
from leaderboard.board.rows import RANKED, stamp
from leaderboard.page_cache import cached_page, uncached
from leaderboard.pages.charts import Chart, Figure, Table, axis_ticks, layout, plain, trace
from leaderboard.pages.quality_chart import quality_chart
from leaderboard.views.site import noindex_variants


@require_safe
@cached_page(stamp, (*PARAMETERS, "by"))
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    board_query = BoardQuery.parse(request.GET)
    context = page(board_query, request.GET) if board_query else {}
    return _allow_caching(
        render(request, "leaderboard/value.html", context), board_query, request.GET
    )


@require_safe
@cached_page(stamp, (*PARAMETERS, "by"))
def figure(request: HttpRequest) -> HttpResponse:
    """Serve the chart alone; the board requests it when it scrolls into view."""
    board_query = BoardQuery.parse(request.GET)
    chart = page(board_query, request.GET).get("chart") if board_query else None
    parts = {"title": chart.title, "figure": chart.figure} if chart else {}
    response = HttpResponse(json.dumps(parts), content_type="application/json")
    return _allow_caching(response, board_query, request.GET)


def page(board_query: BoardQuery, parameters: Mapping[str, str]) -> dict[str, Any]:
    filters = board_query.filters
    cost = COSTS.get(parameters.get("by", ""), COSTS["edit"])
    rows = [row for row in board_query.rows() if row.group == RANKED]
    priced = points(rows, cost)
    hosts = {
        point.row.model.pk: [other.row for other in group if other is not point]
        for group in same_weights(points(rows, COSTS["edit"]) or priced)
        for point in group
    }
    chart: Chart | None = None
    if priced:
        chart = value_chart(priced, cost, filters, len(rows) - len(priced))
    return {
        **board_query.context,
        "cost": cost,
        "costs": COSTS.values(),
        "chart": chart,
        "quality": quality_chart(rows, filters),
        "judges": judges_of(rows),
        "rows": rows,
        "lines": [(row, hosts.get(row.model.pk, ())) for row in rows],
        "best": {point.row.model.pk for point in priced if point.best},
        "query": filters.query(),
        "everything": filters.without_model_filters().query(scope="all"),
    }


def _allow_caching(
    response: HttpResponse, board_query: BoardQuery | None, parameters: Mapping[str, str]
) -> HttpResponse:
    """Allow caching only if `by` is valid, since the number of other values is unbounded."""
    valid = parameters.get("by", "") in ("", *COSTS)
    return (
        response
        if valid and (board_query is None or board_query.is_cacheable)
        else uncached(response)
    )


@dataclass(frozen=True)
class Cost:
    """A measure of cost, in money or time."""

    name: str
    label: str
    value: Callable[[BoardRow], float | None]
    text: Callable[[float | None], str]

    @property
    def axis(self) -> str:
        """The label, with “Price” and “Time” replaced by their units."""
        return self.label.replace("Price", "USD").replace("Time", "seconds")

    @property
    def is_time(self) -> bool:
        return self.text is formatting.seconds


COSTS = {
    cost.name: cost
    for cost in (
        Cost("edit", "Price per edit", lambda row: row.price, formatting.usd),
        Cost(
            "usable",
            "Price per usable trip",
            lambda row: row.usd_per_usable_trip,
            formatting.usd,
        ),
        Cost(
            "median",
            "Time per edit, median",
            lambda row: row.run.progress.median_seconds,
            formatting.seconds,
        ),
        Cost(
            "p95",
            "Time per edit, 95th percentile",
            lambda row: row.run.progress.p95_seconds,
            formatting.seconds,
        ),
    )
}


@dataclass(frozen=True)
class Point:
    """A model and its cost; `best` is True if no cheaper model lasts as long."""

    row: BoardRow
    cost: float
    best: bool

    @property
    def name(self) -> str:
        return self.row.model.name

    @property
    def height(self) -> float:
        """Usable trips. Unlike half-lives, they are always known."""
        return self.row.usable_trips or 0.0


def points(rows: Iterable[BoardRow], cost: Cost) -> list[Point]:
    """Return a point for each row with a known cost, the cheapest first."""
    priced = [
        (value, row) for row in rows if row.standing and (value := cost.value(row)) is not None
    ]
    priced.sort(key=lambda pair: (pair[0], board_order(pair[1])))
    result, most = [], -math.inf
    for value, row in priced:
        usable = row.usable_trips or 0.0
        result.append(Point(row, value, best=usable > most))
        most = max(most, usable)
    return result


def same_weights(points: Sequence[Point]) -> list[list[Point]]:
    """Return the groups of models with the same weights at different hosts."""
    groups: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for point in points:
        groups[point.row.model.weights_name].append(point)
    return [group for group in groups.values() if len(group) > 1]


def finding(points: Sequence[Point], cost: Cost) -> str:
    """Return the chart's title, which names the unbeaten models."""
    best = [point.name for point in points if point.best]
    if not best:
        return "What does durability cost?"
    if len(best) == 1:
        return f"{best[0]} lasts longest and {'takes' if cost.is_time else 'costs'} least"
    names, compared = formatting.listed(best[::-1], 4), "time" if cost.is_time else "price"
    return f"{names} are unbeaten on {compared} and durability"


#: Maximum number of models whose names the chart shows.
MAX_NAMES = 6
#: Label, colour and marker by openness of the weights.
WEIGHTS = {
    True: ("open weights", "--series-3", "diamond"),
    False: ("closed weights", "--series-1", "circle"),
    None: ("weights unknown", "--series-5", "square"),
}


def value_chart(points: Sequence[Point], cost: Cost, filters: BoardFilters, left_out: int) -> Chart:
    """Return the chart of these points. Its subtitle states how many models are left out."""
    missing = (
        f" {formatting.count(left_out, 'model')} without a known "
        f"{'time' if cost.is_time else 'price'} "
        f"{'is' if left_out == 1 else 'are'} not shown."
        if left_out
        else ""
    )
    return Chart(
        id="value",
        title=finding(points, cost),
        subtitle=f"{cost.label} against usable trips by {formatting.metric_label(filters.metric)}. "
        "Up and to the left is better: no model "
        f"{'takes less time' if cost.is_time else 'costs less'} and lasts longer than one on the "
        "line. "
        f"Dotted lines join providers of the same model.{missing}",
        figure=_figure(points, cost, filters.suite.trips),
        table=_table(points, cost),
        about=f"{filters.suite}, by {formatting.metric_label(filters.metric)}",
        file_name=f"{filters.suite.key}-{filters.metric}-{cost.name}",
    )


def _figure(points: Sequence[Point], cost: Cost, trips: int) -> Figure:
    best = [point for point in points if point.best]
    traces = [*_links(points), *_line(best)]
    traces += [
        _markers([p for p in points if p.row.model.open_weights is kind], kind, cost)
        for kind in WEIGHTS
        if any(point.row.model.open_weights is kind for point in points)
    ]
    # Prices differ by orders of magnitude, but a logarithmic axis cannot show a free model.
    all_positive = bool(points) and all(p.cost > 0 for p in points)
    logarithmic = all_positive and points[-1].cost > 8 * points[0].cost
    named = points if len(points) <= MAX_NAMES else best[-MAX_NAMES:]
    return {
        "data": traces,
        "layout": layout(
            xaxis={
                "title": {"text": cost.axis},
                **(_logarithmic_axis(points, cost) if logarithmic else {"rangemode": "tozero"}),
            },
            yaxis={
                "title": {"text": "usable trips"},
                "tickvals": axis_ticks(trips),
                "range": [-0.03 * trips, 1.08 * trips],
            },
            # Where names would overlap, the page hides the later one.
            annotations=[
                _name_label(point, logarithmic)
                for point in sorted(named, key=lambda point: not point.best)
            ],
        ),
    }


def _logarithmic_axis(points: Sequence[Point], cost: Cost) -> Figure:
    """Return a logarithmic axis with ticks at round numbers."""
    low, high = points[0].cost / 1.5, points[-1].cost * 1.5
    marks = [digit * 10.0**power for power in range(-5, 5) for digit in (1, 2, 5)]
    shown = [mark for mark in marks if low <= mark <= high]
    return {
        "type": "log",
        "tickvals": shown,
        "ticktext": [cost.text(mark) for mark in shown],
        "range": [log10(low), log10(high)],
    }


def _table(points: Sequence[Point], cost: Cost) -> Table:
    rows = [
        [
            point.name,
            cost.text(point.cost),
            f"{point.height:.1f}",
            "yes" if point.best else "–",
        ]
        for point in points
    ]
    return Table(["Model", cost.label, "Usable trips", "Unbeaten"], rows)


def _markers(points: Sequence[Point], kind: bool | None, cost: Cost) -> Figure:
    name, colour, symbol = WEIGHTS[kind]
    return trace(
        name,
        mode="markers",
        x=[round(point.cost, 5) for point in points],
        y=[round(point.height, 3) for point in points],
        text=[f"<b>{plain(point.name)}</b><br>{_words(point, cost)}" for point in points],
        hovertemplate="%{text}<extra></extra>",
        line={"color": f"var({colour})"},
        marker={"color": f"var({colour})", "symbol": symbol, "size": 10},
    )


def _words(point: Point, cost: Cost) -> str:
    return f"{point.height:.1f} usable trips, {cost.text(point.cost)} {cost.label.lower()}"


def _line(best: Sequence[Point]) -> list[Figure]:
    if len(best) < 2:
        return []
    return [
        trace(
            "unbeaten",
            x=[round(point.cost, 5) for point in best],
            y=[round(point.height, 3) for point in best],
            hoverinfo="skip",
            line={"color": "var(--series-2)", "width": 2, "shape": "hv"},
        )
    ]


def _links(points: Sequence[Point]) -> list[Figure]:
    """Return a trace with lines that join the hosts of the same weights."""
    pairs = [pair for group in same_weights(points) for pair in pairwise(group)]
    if not pairs:
        return []
    return [
        trace(
            "same weights",
            x=[end for a, b in pairs for end in (round(a.cost, 5), round(b.cost, 5), None)],
            y=[end for a, b in pairs for end in (round(a.height, 3), round(b.height, 3), None)],
            hoverinfo="skip",
            line={"color": "var(--ink-3)", "width": 1.2, "dash": "dot"},
        )
    ]


def _name_label(point: Point, log: bool) -> Figure:
    return {
        "name": "point name",
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
