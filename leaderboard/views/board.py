"""The board, its CSV file, and the versions that other sites can embed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from csp.decorators import csp_replace
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from leaderboard import formatting
from leaderboard.board.citations import board_csv, citation
from leaderboard.board.columns import heads
from leaderboard.board.example import example
from leaderboard.board.query import PARAMETERS, BoardQuery
from leaderboard.board.row import (
    NO_MODEL_FILTERS,
    BoardFilters,
    BoardRow,
    board_order,
    judges_of,
    semantic_of,
)
from leaderboard.board.rows import RANKED, REFERENCE, UNRANKED, grouped, stamp
from leaderboard.models import Run, Standing
from leaderboard.operation import scoring_packages
from leaderboard.page_cache import cached_page, uncached
from leaderboard.pages.charts import (
    COLOURS,
    Chart,
    Curve,
    axis_ticks,
    retention_chart,
    retention_finding,
)
from leaderboard.pages.model_page import notable_cause
from leaderboard.pages.reported import Report, reports
from leaderboard.text import absolute, attachment
from leaderboard.views import value
from leaderboard.views.site import noindex, noindex_variants

#: Rows shown before "show all", to keep the page small.
FIRST_ROWS = 20
#: Number of rows from which the example is chosen.
EXAMPLE_ROWS = 5
#: Numbers of curves: shown at first, added by the legend, and of reference editors.
CURVES, MORE_CURVES, REFERENCE_CURVES = 5, 3, 3


def page_stamp() -> str:
    """Return a string that changes with the board, the setup of scoring, and the date."""
    return f"{stamp()}|{scoring_packages.read_stage()}|{timezone.localdate()}"


@require_safe
@cached_page(page_stamp, (*PARAMETERS, "format"))
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    query = BoardQuery.parse(request.GET)
    if query and request.GET.get("format") == "csv":
        response = download(query)
    else:
        context = {"preparation": scoring_packages.read_stage(), **(page(query) if query else {})}
        response = render(request, "leaderboard/board.html", context)
    return response if not query or query.is_cacheable else uncached(response)


def download(board_query: BoardQuery) -> HttpResponse:
    """Return the rows of the page as CSV.

    A CSV file cannot contain remarks, so an invalid query returns an error.
    """
    if board_query.remarks:
        status = 404 if board_query.no_such_suite else 422
        text = "\n".join(board_query.remarks) + "\n"
        return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
    headers = attachment(f"convergebench-{board_query.filters.suite.key}.csv")
    text = board_csv(board_query.rows())
    return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)


def page(board_query: BoardQuery) -> dict[str, Any]:
    """Return the context of the board's template."""
    filters = board_query.filters
    rows = board_query.rows()
    groups = grouped(rows)
    ranked = groups[RANKED]
    shown = ranked if filters.every else ranked[:FIRST_ROWS]
    return {
        **board_query.context,
        "shown": shown,
        "more": len(ranked) - len(shown),
        "unranked": groups[UNRANKED],
        "references": groups[REFERENCE],
        "ranked_count": len(ranked),
        "cases": same_cases(ranked or rows),
        # A worker writes the Parquet file when a run enters the board.
        "parquet": not filters.suite.published_elsewhere and any(row.run.current for row in rows),
        "uneven": filters.suite.published_elsewhere and same_cases(rows) is None,
        "semantic": semantic_of(rows),
        "judges": judges_of(rows),
        "answer": answer(ranked, filters),
        "narrow": is_narrow(rows, filters),
        "under_way": under_way(filters),
        "example": example(example_rows(ranked, groups[REFERENCE]), filters),
        "chart": curves_chart(groups, filters),
        "report": None if ranked else reported(filters),
        "axis": axis_ticks(filters.suite.trips),
        "heads": heads(filters, rows),
        "query": filters.query(),
        "every": filters.query(every=True),
        "ranks_all": filters.query(ranks=""),
        "ranks_here": filters.query(ranks="here"),
        "everything": filters.query(scope="all", **NO_MODEL_FILTERS),
        "permalink": absolute(f"/?{filters.query()}"),
        "citation": citation(filters),
    }


def reported(filters: BoardFilters) -> Report | None:
    """Return the newest report of results published elsewhere, or None.

    Returns None if filters on models are set, if the suite itself was published elsewhere, or if a
    model is ranked on any suite.
    """
    if filters.has_model_filters or filters.suite.published_elsewhere:
        return None
    if Standing.objects.filter(rank__isnull=False).exists():
        return None
    return next(iter(reports()), None)


def is_narrow(rows: Sequence[BoardRow], filters: BoardFilters) -> bool:
    """Return True if the suite has too few images or pairs for intervals and ranks."""
    intervals = [row.standing.has_interval for row in rows if row.standing]
    whole = filters.scope == "all" and not filters.suite.published_elsewhere
    return whole and bool(intervals) and not any(intervals)


def under_way(filters: BoardFilters) -> list[Run]:
    """Return the suite's runs in progress, the most advanced first."""
    runs = Run.objects.active().outside_experiments().visible_to(AnonymousUser())
    runs = runs.filter(suite=filters.suite)
    return list(
        runs.select_related("editing_model").order_by("-progress__edits_done", "pk")[:FIRST_ROWS]
    )


def same_cases(rows: Sequence[BoardRow]) -> int | None:
    """Return the number of cases if all rows have the same number, else None."""
    counts = {row.standing.counts.get("cases") for row in rows if row.standing}
    return counts.pop() if len(counts) == 1 else None


def answer(ranked: Sequence[BoardRow], filters: BoardFilters) -> str:
    """Return the board's finding in one sentence; empty without ranked models."""
    best = sorted(ranked, key=board_order)
    if not best or not best[0].standing:
        return ""
    trips, first = filters.suite.trips, best[0].standing
    if first.usable_trips < 0.05:
        return "No model keeps an image through its first round trip."
    lasts = formatting.in_trips(first.half_life, trips)
    cause = notable_cause(first)
    reason = f" {cause[:1].upper()}{cause[1:]}." if cause else ""
    if filters.has_model_filters:  # only a board of all models has a leader
        return f"Of these models, {best[0].model.name} lasts longest: {lasts}.{reason}"
    among = "In this self-test, " if filters.suite.is_self_test else ""
    if filters.ranks_here:
        among = "Of the models run here, "
    leaders = sum(row.standing.rank == 1 for row in ranked if row.standing)
    if leaders > 1 and first.rank == 1:
        names = formatting.listed([row.model.name for row in best[:leaders]], total=leaders)
        tied = [row.standing.half_life for row in best[:leaders] if row.standing]
        if len({formatting.in_trips(half_life, trips) for half_life in tied}) == 1:
            return f"{among}{names} share first place: they last {lasts}."
        return f"{among}{names} share first place; {best[0].model.name} lasts {lasts}."
    name = best[0].model.name
    if _is_inconclusive(first, trips):
        return (
            f"{among}{name} lasts longest here, {lasts}, but on too few cases to say that it "
            f"leads.{reason}"
        )
    return f"{among}{name} leads: it lasts {lasts}.{reason}"


def _is_inconclusive(standing: Standing, trips: int) -> bool:
    """Return True if the interval is missing or spans nearly all trips."""
    low, high = standing.usable_trips_low, standing.usable_trips_high
    if low is None or high is None:
        return True
    return low < 0.05 * trips and high > 0.95 * trips


def example_rows(ranked: Sequence[BoardRow], references: Sequence[BoardRow]) -> list[BoardRow]:
    """Return the rows for the example: the leaders, or else reference editors."""
    if ranked:
        return sorted(ranked, key=board_order)[:EXAMPLE_ROWS]
    editors = sorted(filter(_made_edits, references), key=board_order)
    # Start in the middle: the damage of these editors is visible, but not total.
    return (editors[len(editors) // 2 :] + editors)[:EXAMPLE_ROWS]


def curves_chart(groups: Mapping[str, Sequence[BoardRow]], filters: BoardFilters) -> Chart | None:
    """Return the chart of the first models and a few reference editors."""
    trips = filters.suite.trips
    # Results published elsewhere have no ranks, but their curves are shown.
    models = groups[UNRANKED if filters.suite.published_elsewhere else RANKED]
    editing = [row for row in models if _made_edits(row)]
    references = [row for row in groups[REFERENCE] if _made_edits(row)]
    curves = [
        Curve.from_json(row.model.name, row.standing.curve, hidden=index >= CURVES)
        for index, row in enumerate(editing[: CURVES + MORE_CURVES])
        if row.standing
    ]
    # Finished runs without a rank are thin grey lines; the table states the reason.
    unranked = [row for row in groups[UNRANKED] if row not in models and _made_edits(row)]
    # Next to models, a few reference editors are shown for comparison; without models, all are.
    # Editors that lose nothing or everything are grey and not in the title.
    between = [row for row in references if 0 < (row.usable_trips or 0) < trips]
    compared = between[:: max(1, len(between) // REFERENCE_CURVES)] if curves else references
    coloured = [] if curves else between
    curves += [
        Curve.from_json(
            row.model.name,
            row.standing.curve,
            reference=row not in coloured,
            hidden=row in coloured[COLOURS:],
        )
        for row in compared
        if row.standing
    ]
    curves += [
        Curve.from_json(f"{row.model.name} (not ranked)", row.standing.curve, reference=True)
        for row in unranked[:MORE_CURVES]
        if row.standing
    ]
    if not curves:
        return None
    label = formatting.metric_label(filters.metric)
    # The title names only curves that are visible at first.
    finding = retention_finding([c for c in curves if not (c.reference or c.hidden)], trips)
    return retention_chart(
        curves,
        trips,
        title=finding if editing else f"Reference editors: {finding[:1].lower()}{finding[1:]}",
        subtitle=f"How much of the image is left after each round trip, by {label}; mean over "
        "cases with 95\u00a0% band. "
        "A blank card of the image’s mean colour would keep about 0\u00a0%.",
        about=about(filters, [*models, *groups[REFERENCE]]),
        file_name=f"{filters.suite.key}-{filters.metric}-curves",
    )


def about(filters: BoardFilters, rows: Sequence[BoardRow]) -> str:
    """Return the caption that a downloaded chart gets."""
    newest = max((row.date for row in rows if row.date), default=None)
    dated = f", results of {newest:%-d %B %Y}" if newest else ""
    return f"{filters.suite}, by {formatting.metric_label(filters.metric)}{dated}"


def _made_edits(row: BoardRow) -> bool:
    """Return True if the row has results and its images change."""
    return row.standing is not None and row.change_seen != 0


#: Rows of the embedded board.
EMBEDDED_ROWS = 10
#: Valid values of ?chart=.
CHARTS = ("", "curves", "value")


def embeddable(view: Callable[..., HttpResponse]) -> Any:
    """Let other sites show the page in a frame. It must have no form and no user data."""
    return xframe_options_exempt(csp_replace({"frame-ancestors": ["*"]})(view))


@require_safe
@cached_page(stamp, PARAMETERS)
@embeddable
@noindex
def embed_board(request: HttpRequest) -> HttpResponse:
    """Show the first rows of the board."""
    query = BoardQuery.parse(request.GET)
    rows = query.rows() if query else []
    ranked = [row for row in rows if row.group == RANKED]
    shown = ranked or [row for row in rows if row.standing]
    context = {
        "rows": shown[:EMBEDDED_ROWS],
        "more": max(0, len(shown) - EMBEDDED_ROWS),
    } | _embed_context(query)
    return _embed_response(request, "leaderboard/embed_board.html", query, context)


@require_safe
@cached_page(stamp, (*PARAMETERS, "chart"))
@embeddable
@noindex
def embed_chart(request: HttpRequest) -> HttpResponse:
    """Show a chart: the curves, or usable trips against price."""
    query = BoardQuery.parse(request.GET)
    name = request.GET.get("chart", "")
    context = _embed_context(query)
    if query and name == "value":
        context["chart"] = value.page(query, {}).get("chart")
    elif query:
        context["chart"] = curves_chart(grouped(query.rows()), query.filters)
    response = _embed_response(request, "leaderboard/embed_chart.html", query, context)
    return response if name in CHARTS else uncached(response)


def _embed_context(board_query: BoardQuery | None) -> dict[str, Any]:
    if board_query is None:
        return {}
    return {**board_query.context, "permalink": absolute(f"/?{board_query.filters.query()}")}


def _embed_response(
    request: HttpRequest, template: str, board_query: BoardQuery | None, context: dict[str, Any]
) -> HttpResponse:
    response = render(request, template, context)
    return response if board_query is None or board_query.is_cacheable else uncached(response)
