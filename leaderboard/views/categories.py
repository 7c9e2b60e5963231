"""The breakdown page: half-life by category, kind of image and edit pair."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluation.analysis import thresholds
from leaderboard import formatting
from leaderboard.board import breakdowns
from leaderboard.board.breakdowns import PAIRS
from leaderboard.board.query import PARAMETERS, BoardQuery
from leaderboard.board.rows import RANKED, REFERENCE, stamp
from leaderboard.page_cache import cached_page, uncached
from leaderboard.views.site import noindex_variants

#: Models shown before "show all", and models in the table of pairs.
FIRST_ROWS, PAIR_COLUMNS = 50, 10


@require_safe
@cached_page(stamp, PARAMETERS)
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    query = BoardQuery.parse(request.GET)
    response = render(request, "leaderboard/categories.html", page(query) if query else {})
    return response if not query or query.is_cacheable else uncached(response)


def page(board_query: BoardQuery) -> dict[str, Any]:
    """Return the context of the page: two tables whose cells are shaded on the same scale."""
    filters, trips = board_query.filters, board_query.filters.suite.trips
    rows = [row for row in board_query.rows() if row.standing]
    ranked = [row for row in rows if row.group == RANKED]
    references = [row for row in rows if row.group == REFERENCE]
    shown = (ranked if filters.every else ranked[:FIRST_ROWS]) or references
    by_scope = breakdowns.standings_by_scope(shown)
    parts = breakdowns.parts(by_scope, breakdowns.pair_titles(filters.suite.pk))
    columns = [part for part in parts if part.group != PAIRS]
    cells = [line for _, line in breakdowns.heat_lines(columns, shown, by_scope, trips)]
    pairs = breakdowns.heat_lines(
        (part for part in parts if part.group == PAIRS), shown[:PAIR_COLUMNS], by_scope, trips
    )
    categories = [part for part in columns if part.group == "Category"]
    gap = breakdowns.widest_gap(categories, by_scope, trips)
    return {
        **board_query.context,
        "finding": finding(*gap) if gap else "",
        "columns": columns,
        "lines": zip(shown, zip(*cells, strict=True), strict=True) if cells else [],
        "references_only": bool(shown) and not ranked,
        "more": len(ranked) - len(shown) if ranked else 0,
        "every": filters.query(every=True),
        "pair_columns": shown[:PAIR_COLUMNS],
        "pair_lines": [(part, filters.query(scope=part.scope), line) for part, line in pairs],
        "life": thresholds.life(filters.threshold),
    }


def finding(easiest: breakdowns.Part, hardest: breakdowns.Part) -> str:
    """Return the page's finding in one sentence."""
    first, last = (formatting.edits(part.scope.partition(":")[2]) for part in (easiest, hardest))
    return f"{first} keep an image longest, {last.lower()} wear it out first"
