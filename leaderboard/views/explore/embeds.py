"""The board and its charts for other sites to show: the only addresses that may be framed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from csp.decorators import csp_replace
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from leaderboard.board.query import PARAMETERS, BoardQuery
from leaderboard.board.rows import RANKED, UNRANKED, YARDSTICK, board_rows, stamp
from leaderboard.page_cache import keep_page, not_kept
from leaderboard.text import absolute
from leaderboard.views import board as board_page
from leaderboard.views.crawlers import noindex
from leaderboard.views.explore import value

#: Rows of the small board.
ROWS = 10
CHARTS = ("", "curves", "value")


def framed(view: Callable[..., HttpResponse]) -> Any:
    """A page that other sites may show in a frame: it has no form, and nothing of a visitor's."""
    return xframe_options_exempt(csp_replace({"frame-ancestors": ["*"]})(view))


@require_safe
@keep_page(stamp, PARAMETERS)
@framed
@noindex
def board(request: HttpRequest) -> HttpResponse:
    """The first rows of the board."""
    asked = BoardQuery.parse(request.GET)
    rows = board_rows(asked.filters, asked.runs) if asked else []
    ranked = [row for row in rows if row.group == RANKED]
    shown = ranked or [row for row in rows if row.standing]
    context = {"rows": shown[:ROWS], "more": max(0, len(shown) - ROWS)} | _common(asked)
    return _answer(request, "leaderboard/embed_board.html", asked, context)


@require_safe
@keep_page(stamp, (*PARAMETERS, "chart"))
@framed
@noindex
def chart(request: HttpRequest) -> HttpResponse:
    """One chart: the curves, or half-life against price."""
    asked = BoardQuery.parse(request.GET)
    name = request.GET.get("chart", "")
    context = _common(asked)
    if asked and name == "value":
        context["chart"] = value.page(asked, {}).get("chart")
    elif asked:
        rows = board_rows(asked.filters, asked.runs)
        groups = {
            group: [row for row in rows if row.group == group]
            for group in (RANKED, UNRANKED, YARDSTICK)
        }
        others = asked.filters.suite.published_elsewhere
        context["chart"] = board_page.curves_chart(
            groups[UNRANKED if others else RANKED], groups[YARDSTICK], asked.filters
        )
    response = _answer(request, "leaderboard/embed_chart.html", asked, context)
    return response if name in CHARTS else not_kept(response)


def _common(asked: BoardQuery | None) -> dict[str, Any]:
    if asked is None:
        return {}
    filters = asked.filters
    return {
        "filters": filters,
        "suite": filters.suite,
        "trips": filters.suite.trips,
        "permalink": absolute(f"/?{filters.query()}"),
    }


def _answer(
    request: HttpRequest, template: str, asked: BoardQuery | None, context: dict[str, Any]
) -> HttpResponse:
    response = render(request, template, context)
    return response if asked is None or asked.is_kept else not_kept(response)
