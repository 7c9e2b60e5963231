"""Two to six models side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from evaluation.analysis import levels
from evaluation.analysis.comparison import Comparison
from leaderboard import formatting
from leaderboard.board import breakdowns, comparing
from leaderboard.board.query import BoardQuery
from leaderboard.board.row import BoardFilters, BoardRow, board_order, semantic_of
from leaderboard.board.rows import RANKED, YARDSTICK, board_rows, stamp
from leaderboard.models import Case, StoredImage, Trip
from leaderboard.pages.charts import (
    Chart,
    Curve,
    retention_curves,
    retention_finding,
    retention_table,
)
from leaderboard.text import absolute
from leaderboard.views.crawlers import noindex_variants
from leaderboard.visitors import limited

MOST = 6
#: Trips shown of the case side by side: few enough for one line.
SHOWN = (1, 2, 5, 10, 20)


@require_safe
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    asked = BoardQuery.parse(request.GET)
    if asked is None:
        return render(request, "leaderboard/compare.html", {})
    chosen = [slug for part in request.GET.getlist("models") for slug in part.split(",") if slug]
    chosen = list(dict.fromkeys(chosen))
    if len(request.GET.getlist("models")) > 1:
        # Ticked boxes arrive one by one; the address to share has them in one word.
        return redirect(f"{request.path}?{address(asked, chosen)}")
    rows = board_rows(asked.filters, asked.runs)
    known = {row.model.slug: row for row in rows if row.standing}
    remarks = [
        f"“{slug[:60]}” has no results here and was left out."
        for slug in chosen
        if slug not in known
    ]
    if len(chosen) - len(remarks) > MOST:
        remarks.append(f"At most {MOST} models fit side by side; the first {MOST} are shown.")
    shown = [known[slug] for slug in chosen if slug in known][:MOST]
    context = {
        "asked": asked,
        "filters": asked.filters,
        "suite": asked.filters.suite,
        "trips": asked.filters.suite.trips,
        "remarks": remarks,
        "rows": shown,
        "choices": list(known.values()),
        "models": ",".join(row.model.slug for row in shown),
        "suggestions": suggestions(asked, list(known.values())),
    }
    if len(shown) > 1:
        # Every new set of models is tested pair by pair.
        if too_many := limited(request, "compare"):
            return too_many
        context |= page(asked, shown, request.GET.get("case", ""))
        context["permalink"] = absolute(f"{request.path}?{address(asked, chosen)}")
    return render(request, "leaderboard/compare.html", context)


@dataclass(frozen=True)
class Against:
    """The leader against one other model."""

    other: BoardRow
    comparison: Comparison
    verdict: str
    outlook: str


@dataclass(frozen=True)
class Strip:
    """What one model made of the case: a picture and its retention at some trips."""

    row: BoardRow
    cells: list[tuple[int, StoredImage | None, float | None]]
    ended: str


def page(asked: BoardQuery, rows: Sequence[BoardRow], case: str) -> dict[str, Any]:
    """Everything below the choice of models."""
    filters = asked.filters
    found = comparing.contest(rows, filters, stamp())
    by_run = {row.run.pk: row for row in rows}
    leader = by_run[found.leader] if found else rows[0]
    against = [
        Against(
            by_run[run],
            comparison,
            comparing.verdict(comparison, leader.model.name, by_run[run].model.name),
            comparing.outlook(comparison, filters.suite.trips),
        )
        for run, comparison in (found.against.items() if found else ())
    ]
    return {
        "leader": leader,
        "against": against,
        "span": max((reach(one.comparison) for one in against), default=1),
        "headline": headline(leader, against, len(rows), filters),
        "semantic": semantic_of(rows),
        "chart": curves(rows, filters),
        "parts": parts(asked, rows),
        **side_by_side(asked, rows, found, case),
    }


def headline(
    leader: BoardRow, against: Sequence[Against], count: int, filters: BoardFilters
) -> str:
    """The finding, in one sentence."""
    if len(against) == 1:
        return against[0].verdict
    if not against:
        return f"{formatting.count(count, 'model')} side by side"
    tied = [one.other.model.name for one in against if not one.comparison.separated]
    if tied and all(
        comparing.nobody_reached(one.comparison, filters.suite.trips) for one in against
    ):
        lost, trips = levels.lost(filters.level), filters.suite.trips
        return f"None of the {count} loses {lost} of the picture within {trips} round trips"
    if tied:
        return (
            f"{leader.model.name} lasts longest, but cannot be told from {formatting.listed(tied)}"
        )
    gap = min(one.comparison.half_life.estimate for one in against)
    ahead = f", by {formatting.in_trips(gap, 0)}" if round(gap, 1) > 0 else ""
    return f"{leader.model.name} lasts longest of the {count}{ahead}"


def reach(comparison: Comparison) -> float:
    """How far from zero the difference and its interval go."""
    bounds = comparison.half_life.interval
    ends: list[float | None] = [comparison.half_life.estimate]
    ends += [bounds.low, bounds.high] if bounds else []
    return max(abs(end) for end in ends if end is not None)


def curves(rows: Sequence[BoardRow], filters: BoardFilters) -> Chart:
    drawn = [Curve.of(row.model.name, row.standing.curve) for row in rows if row.standing]
    return Chart(
        id="curves",
        title=retention_finding(drawn, filters.suite.trips),
        subtitle=f"By {formatting.metric_label(filters.metric)}, mean over cases with 95\u00a0% band. "
        "0\u00a0% is a blank card of the picture’s mean colour.",
        figure=retention_curves(drawn, filters.suite.trips),
        table=retention_table(drawn, filters.suite.trips),
        about=f"{filters.suite}, by {formatting.metric_label(filters.metric)}",
        file_name="-".join(["compare", *(row.model.slug for row in rows), filters.suite.key]),
    )


def parts(asked: BoardQuery, rows: Sequence[BoardRow]) -> dict[str, Any]:
    """Half-lives by category and kind, and how often each model is the best."""
    by_scope = breakdowns.standings_by_scope(rows)
    found = breakdowns.parts(by_scope, {})
    by_scope = {part.scope: by_scope[part.scope] for part in found}
    lines = breakdowns.heat_lines(found, rows, by_scope, asked.filters.suite.trips)
    # Where all are equal, nobody wins.
    decided = [cells for _, cells in lines if not all(cell.best for cell in cells)]
    wins = [sum(cells[place].best for cells in decided) for place in range(len(rows))]
    return {"lines": lines, "wins": wins, "count": len(lines)}


def side_by_side(
    asked: BoardQuery, rows: Sequence[BoardRow], found: comparing.Contest | None, case: str
) -> dict[str, Any]:
    """One case as each model returned it: the one asked for, else where they differ most."""
    duels = found.duels if found else []
    wanted = int(case) if case.isascii() and case.isdigit() and len(case) < 10 else None
    keys = [key for key in (wanted, *(duel.case for duel in duels)) if key]
    cases = Case.objects.filter(suite=asked.filters.suite).select_related("picture__stored")
    known = cases.in_bulk(keys)
    shown = next((known[key] for key in keys if key in known), None)
    if shown is None:
        return {}
    last = asked.filters.suite.trips
    numbers = sorted({n for n in SHOWN if n < last} | {last})
    trips = _trips_by_run(shown, rows, numbers)
    slugs = [row.model.slug for row in rows]
    names = {row.run.pk: row.model.name for row in rows}
    return {
        "case": shown,
        "numbers": numbers,
        "strips": [
            strip(row, trips.get(row.run.pk, {}), numbers, asked.filters.metric) for row in rows
        ],
        "duels": [
            (
                known[duel.case],
                names[max(duel.kept, key=lambda run: duel.kept[run])],
                address(asked, slugs, case=duel.case),
            )
            for duel in duels
            if duel.case in known
        ],
    }


def _trips_by_run(
    case: Case, rows: Sequence[BoardRow], numbers: Sequence[int]
) -> dict[int, dict[int, Trip]]:
    """What each run made of the case, by trip."""
    trips = Trip.objects.filter(
        chain__run__in=[row.run.pk for row in rows],
        chain__case=case,
        chain__repeat=0,
        number__in=numbers,
    )
    found: dict[int, dict[int, Trip]] = {}
    for trip in trips.select_related("restored", "chain"):
        found.setdefault(trip.chain.run_id, {})[trip.number] = trip
    return found


def strip(row: BoardRow, trips: dict[int, Trip], numbers: Sequence[int], metric: str) -> Strip:
    chain = next((trip.chain for trip in trips.values()), None)
    return Strip(
        row,
        [
            (
                number,
                trips[number].restored if number in trips else None,
                chain.retention_after(metric, number) if chain else None,
            )
            for number in numbers
        ],
        chain.get_outcome_display().lower() if chain and chain.outcome != "completed" else "",
    )


def suggestions(asked: BoardQuery, rows: Sequence[BoardRow]) -> list[tuple[str, str]]:
    """Comparisons worth a click, as (what it is, address)."""
    ranked = [row for row in rows if row.group == RANKED]
    ranked.sort(key=board_order)
    yardsticks = [row for row in rows if row.group == YARDSTICK]
    found = []
    if len(ranked) > 1:
        found.append(("The first three", ranked[:3]))
        found.append(("First and last", [ranked[0], ranked[-1]]))
    weights = [
        next((r for r in ranked if r.model.open_weights is kind), None) for kind in (True, False)
    ]
    if all(weights):
        found.append(("Best open against best closed", [row for row in weights if row]))
    if len(yardsticks) > 1:
        found.append(("The yardsticks", yardsticks[:MOST]))
    return [(label, address(asked, [row.model.slug for row in some])) for label, some in found]


def address(asked: BoardQuery, slugs: Sequence[str], **more: Any) -> str:
    """The query that leads to this comparison, short enough to share."""
    extra = "".join(f"&{name}={value}" for name, value in more.items())
    shown = asked.filters.everybody().query(sort="half_life", scope="all", every=False)
    return f"models={','.join(slugs)}&{shown}{extra}"
