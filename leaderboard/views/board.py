"""The board: which model keeps a picture longest?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from ninja.responses import NinjaJSONEncoder

from leaderboard import formatting
from leaderboard.api.schemas import BoardOut
from leaderboard.board.citations import board_csv, citation
from leaderboard.board.columns import heads
from leaderboard.board.example import example
from leaderboard.board.query import PARAMETERS, BoardQuery
from leaderboard.board.row import NO_CHOICE, BoardFilters, BoardRow, board_order, semantic_of
from leaderboard.board.rows import RANKED, UNRANKED, YARDSTICK, board_rows, stamp
from leaderboard.models import Run, Standing
from leaderboard.operation import scoring_packages
from leaderboard.page_cache import keep_page, not_kept
from leaderboard.pages import inline_svg
from leaderboard.pages.charts import (
    Chart,
    Curve,
    retention_curves,
    retention_finding,
    retention_table,
)
from leaderboard.pages.endings import telling
from leaderboard.text import absolute
from leaderboard.views.crawlers import noindex_variants

#: Rows before "show all": the page stays light however many models there are.
FIRST_ROWS = 20
#: The example is of the first of these that has pictures.
EXAMPLES = 5
#: Curves drawn at once, and those the legend can add.
CURVES, MORE_CURVES, YARDSTICK_CURVES = 5, 3, 3


def page_stamp() -> str:
    """Changes with the board, and with what it says of scoring that is made ready."""
    return f"{stamp()}|{scoring_packages.read()}"


@require_safe
@keep_page(page_stamp, (*PARAMETERS, "format"))
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    asked = BoardQuery.parse(request.GET)
    if asked and request.GET.get("format") in ("csv", "json"):
        response = download(asked, request.GET["format"])
    else:
        context = {"preparation": scoring_packages.read(), **(page(asked) if asked else {})}
        response = render(request, "leaderboard/board.html", context)
    return response if not asked or asked.is_kept else not_kept(response)


def download(asked: BoardQuery, form: str) -> HttpResponse:
    """The rows of the page as a file: a table, or the board exactly as the API gives it.

    A file carries no remark, so one that was asked for by mistake is not made.
    """
    if asked.remarks:
        status = 404 if asked.no_such_suite else 422
        text = "\n".join(asked.remarks) + "\n"
        return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
    if form == "csv":
        text = board_csv(board_rows(asked.filters, asked.runs))
        content_type = "text/csv; charset=utf-8"
    else:
        text = json.dumps(BoardOut.from_orm(asked).model_dump(), cls=NinjaJSONEncoder)
        content_type = "application/json"
    response = HttpResponse(text, content_type=content_type)
    name = f"convergebench-{asked.filters.suite.key}.{form}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def page(asked: BoardQuery) -> dict[str, Any]:
    """What the template needs to show this board."""
    filters = asked.filters
    rows = board_rows(filters, asked.runs)
    groups = {
        name: [row for row in rows if row.group == name] for name in (RANKED, UNRANKED, YARDSTICK)
    }
    ranked = groups[RANKED]
    shown = ranked if filters.every else ranked[:FIRST_ROWS]
    return {
        "asked": asked,
        "filters": filters,
        "suite": filters.suite,
        "trips": filters.suite.trips,
        "shown": shown,
        "more": len(ranked) - len(shown),
        "unranked": groups[UNRANKED],
        "yardsticks": groups[YARDSTICK],
        "ranked_count": len(ranked),
        "cases": same_cases(ranked or rows),
        # A worker writes it whenever a run comes onto the board.
        "parquet": not filters.suite.published_elsewhere and any(row.run.current for row in rows),
        "uneven": filters.suite.published_elsewhere and same_cases(rows) is None,
        "semantic": semantic_of(rows),
        "answer": answer(ranked, filters),
        "under_way": under_way(filters),
        "example": example(examples(ranked, groups[YARDSTICK]), filters),
        # Results of others are never ranked; their curves are shown all the same.
        "chart": curves_chart(
            groups[UNRANKED] if filters.suite.published_elsewhere else ranked,
            groups[YARDSTICK],
            filters,
        ),
        "axis": inline_svg.axis_ticks(filters.suite.trips),
        "heads": heads(filters, semantic_of(rows), rows),
        "query": filters.query(),
        "every": filters.query(every=True),
        "everything": filters.query(scope="all", **NO_CHOICE),
        "permalink": absolute(f"/?{filters.query()}"),
        "citation": citation(filters),
    }


def under_way(filters: BoardFilters) -> list[Run]:
    """Runs of this board's suite that are played or scored now, the furthest first."""
    runs = Run.objects.active().as_the_suite_says().visible_to(AnonymousUser())
    runs = runs.filter(suite=filters.suite)
    return list(
        runs.select_related("editing_model").order_by("-progress__edits_done", "pk")[:FIRST_ROWS]
    )


def same_cases(rows: Sequence[BoardRow]) -> int | None:
    """How many cases these rows played; None where it is not the same for all."""
    counts = {row.standing.counts.get("cases") for row in rows if row.standing}
    return counts.pop() if len(counts) == 1 else None


def answer(ranked: Sequence[BoardRow], filters: BoardFilters) -> str:
    """The board in one sentence; empty while nobody is ranked."""
    best = sorted(ranked, key=board_order)
    if not best or not best[0].standing:
        return ""
    trips, first = filters.suite.trips, best[0].standing
    if first.usable_trips < 0.05:
        return "No model keeps a picture through its first round trip."
    lasts = formatting.in_trips(first.half_life, trips)
    cause = telling(first)
    besides = f" {cause[:1].upper()}{cause[1:]}." if cause else ""
    if filters.chooses_models:  # who leads is said of all models
        return f"Of these models, {best[0].model.name} lasts longest: {lasts}.{besides}"
    leaders = sum(row.standing.rank == 1 for row in ranked if row.standing)
    if leaders > 1 and first.rank == 1:
        names = formatting.listed([row.model.name for row in best[:leaders]], of=leaders)
        return f"{names} share first place; the longest lasts {lasts}."
    name = best[0].model.name
    if _says_nothing(first, trips):
        return f"{name} lasts longest here, {lasts}, but on too few cases to say that it leads.{besides}"
    return f"{name} leads: it lasts {lasts}.{besides}"


def _says_nothing(standing: Standing, trips: int) -> bool:
    """Whether the interval is as long as the scale, or is not known at all."""
    low, high = standing.usable_trips_low, standing.usable_trips_high
    if low is None or high is None:
        return True
    return low < 0.05 * trips and high > 0.95 * trips


def examples(ranked: Sequence[BoardRow], yardsticks: Sequence[BoardRow]) -> list[BoardRow]:
    """Whose pictures may head the board: the leaders', else a yardstick's that does some harm."""
    if ranked:
        return sorted(ranked, key=board_order)[:EXAMPLES]
    known = sorted(filter(_made_edits, yardsticks), key=board_order)
    return (known[len(known) // 2 :] + known)[:EXAMPLES]


def curves_chart(
    ranked: Sequence[BoardRow], yardsticks: Sequence[BoardRow], filters: BoardFilters
) -> Chart | None:
    """The degradation curves of the first models, with a few yardsticks for scale."""
    trips = filters.suite.trips
    drawn = [row for row in ranked if _made_edits(row)]
    known = [row for row in yardsticks if _made_edits(row)]
    curves = [
        Curve.of(row.model.name, row.standing.curve, hidden=place >= CURVES)
        for place, row in enumerate(drawn[: CURVES + MORE_CURVES])
        if row.standing
    ]
    # With models to show, the ends of the scale say little; on their own they are the board.
    scale = [row for row in known if 0 < (row.usable_trips or 0) < trips] if curves else known
    step = max(1, len(scale) // YARDSTICK_CURVES) if curves else 1
    curves += [
        Curve.of(row.model.name, row.standing.curve, yardstick=bool(drawn))
        for row in scale[::step]
        if row.standing
    ]
    if not curves:
        return None
    label = formatting.metric_label(filters.metric)
    return Chart(
        id="curves",
        # Of what is seen at once: a name that is not in the chart would be looked for in vain.
        title=retention_finding([c for c in curves if not (c.yardstick or c.hidden)], trips),
        subtitle=f"Picture kept after each round trip by {label}, mean over cases with 95\u00a0% band. "
        "0\u00a0% is a blank card of the picture’s mean colour. Click a name to show or hide its curve.",
        figure=retention_curves(curves, trips),
        table=retention_table(curves, trips),
        about=about(filters, [*ranked, *yardsticks]),
        file_name=f"{filters.suite.key}-{filters.metric}-curves",
    )


def about(filters: BoardFilters, rows: Sequence[BoardRow]) -> str:
    """What a chart of the board says of itself when it is downloaded."""
    newest = max((row.date for row in rows if row.date), default=None)
    dated = f", results of {newest:%-d %B %Y}" if newest else ""
    return f"{filters.suite}, by {formatting.metric_label(filters.metric)}{dated}"


def _made_edits(row: BoardRow) -> bool:
    """Whether a curve says anything: who never makes the edit keeps the picture for ever."""
    return row.standing is not None and row.change_seen != 0
