"""Price and speed against half-life: what a picture that lasts costs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.board.query import PARAMETERS, BoardQuery
from leaderboard.board.rows import RANKED, board_rows, stamp
from leaderboard.board.value import COSTS, points, same_weights
from leaderboard.page_cache import keep_page, not_kept
from leaderboard.pages.charts import Chart
from leaderboard.pages.explore import value_chart
from leaderboard.views.crawlers import noindex_variants


@require_safe
@keep_page(stamp, (*PARAMETERS, "by"))
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    asked = BoardQuery.parse(request.GET)
    context = page(asked, request.GET) if asked else {}
    return _kept(render(request, "leaderboard/value.html", context), asked, request.GET)


@require_safe
@keep_page(stamp, (*PARAMETERS, "by"))
def figure(request: HttpRequest) -> HttpResponse:
    """The chart alone, for the board: it asks for it when somebody comes near."""
    asked = BoardQuery.parse(request.GET)
    found = page(asked, request.GET).get("chart") if asked else None
    parts = {"title": found.title, "figure": found.figure} if found else {}
    response = HttpResponse(json.dumps(parts), content_type="application/json")
    return _kept(response, asked, request.GET)


def page(asked: BoardQuery, query: Mapping[str, str]) -> dict[str, Any]:
    filters = asked.filters
    cost = COSTS.get(query.get("by", ""), COSTS["edit"])
    rows = [row for row in board_rows(filters, asked.runs) if row.group == RANKED]
    found = points(rows, cost)
    hosts = {
        point.row.model.pk: [other.row for other in group if other is not point]
        for group in same_weights(points(rows, COSTS["edit"]) or found)
        for point in group
    }
    chart: Chart | None = None
    if found:
        chart = value_chart.chart(found, cost, filters, len(rows) - len(found))
    return {
        "asked": asked,
        "filters": filters,
        "suite": filters.suite,
        "trips": filters.suite.trips,
        "cost": cost,
        "costs": COSTS.values(),
        "chart": chart,
        "rows": rows,
        "lines": [(row, hosts.get(row.model.pk, ())) for row in rows],
        "best": {point.row.model.pk for point in found if point.best},
        "query": filters.query(),
        "everything": filters.everybody().query(scope="all"),
    }


def _kept(
    response: HttpResponse, asked: BoardQuery | None, query: Mapping[str, str]
) -> HttpResponse:
    """Of other values of `by` there is no end: the page is made, but not kept."""
    known = query.get("by", "") in ("", *COSTS)
    return response if known and (asked is None or asked.is_kept) else not_kept(response)
