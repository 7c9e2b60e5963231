"""The page that compares two to six models on the cases they share.

This is the only page that computes results, because each choice of models has its own paired
differences. These are computed on request from the stored results of chains, and cached until a
standing (a run's stored result by one metric) changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe
from pydantic import TypeAdapter

from evaluation.analysis import events, thresholds
from evaluation.analysis.case_values import case_values
from evaluation.analysis.comparison import Comparison, Difference, compare
from evaluation.analysis.standings import chain_of_numbers
from leaderboard import formatting
from leaderboard.board import breakdowns
from leaderboard.board.query import BoardQuery
from leaderboard.board.row import BoardFilters, BoardRow, board_order, semantic_of
from leaderboard.board.rows import RANKED, REFERENCE, stamp
from leaderboard.models import Case, Chain
from leaderboard.models.runs import ChainState
from leaderboard.pages import strips
from leaderboard.pages.charts import Chart, Curve, retention_chart
from leaderboard.text import absolute
from leaderboard.views.site import noindex_variants
from leaderboard.visitors import limited

MAX_MODELS = 6
#: The trips of a case that are shown: few enough to fit on one line.
SHOWN = (1, 2, 5, 10, 20)


@require_safe
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    query = BoardQuery.parse(request.GET)
    if query is None:
        return render(request, "leaderboard/compare.html", {})
    chosen = [slug for part in request.GET.getlist("models") for slug in part.split(",") if slug]
    chosen = list(dict.fromkeys(chosen))
    if len(request.GET.getlist("models")) > 1:
        # Each checkbox sends its own parameter; the URL to share has one parameter for all models.
        return redirect(f"{request.path}?{comparison_query(query, chosen)}")
    rows = query.rows()
    by_slug = {row.model.slug: row for row in rows if row.standing}
    remarks = [
        f"“{slug[:60]}” has no results on this suite and was left out."
        for slug in chosen
        if slug not in by_slug
    ]
    if len(chosen) - len(remarks) > MAX_MODELS:
        remarks.append(
            f"At most {MAX_MODELS} models can be compared; the first {MAX_MODELS} are shown."
        )
    shown = [by_slug[slug] for slug in chosen if slug in by_slug][:MAX_MODELS]
    context = {
        **query.context,
        "remarks": remarks,
        "rows": shown,
        "choices": list(by_slug.values()),
        "models": ",".join(row.model.slug for row in shown),
        "suggestions": suggestions(query, list(by_slug.values())),
    }
    if len(shown) > 1:
        # Comparing a new set of models is slow, so the rate is limited.
        if too_many := limited(request, "compare"):
            return too_many
        context |= page(query, shown, request.GET.get("case", ""))
        context["permalink"] = absolute(f"{request.path}?{comparison_query(query, chosen)}")
    return render(request, "leaderboard/compare.html", context)


@dataclass(frozen=True)
class LeaderComparison:
    """The comparison of the leader with one other model."""

    other: BoardRow
    comparison: Comparison
    verdict: str
    #: How to distinguish the models; empty if they are distinguished already.
    hint: str
    #: Why half-lives and usable trips order the models differently; empty if the orders agree.
    crossing: str


def page(board_query: BoardQuery, rows: Sequence[BoardRow], case: str) -> dict[str, Any]:
    """Return the context of the part of the page below the choice of models."""
    filters = board_query.filters
    comparisons = cached_comparisons(rows, filters, stamp())
    by_run = {row.run.pk: row for row in rows}
    leader = by_run[comparisons.leader] if comparisons else rows[0]
    against = [
        LeaderComparison(
            by_run[run],
            comparison,
            verdict(comparison, leader.model.name, by_run[run].model.name),
            distinguishing_hint(comparison, filters.suite.trips),
            crossing(comparison, leader.model.name, by_run[run].model.name, filters),
        )
        for run, comparison in (comparisons.against.items() if comparisons else ())
    ]
    return {
        "leader": leader,
        "against": against,
        "span": max((reach(item.comparison) for item in against), default=1),
        "headline": headline(leader, against, len(rows), filters),
        "semantic": semantic_of(rows),
        "chart": curves(rows, filters),
        "parts": parts(board_query, rows),
        **side_by_side(board_query, rows, comparisons, case),
    }


def headline(
    leader: BoardRow, against: Sequence[LeaderComparison], count: int, filters: BoardFilters
) -> str:
    """Return the finding in one sentence."""
    if len(against) == 1:
        return against[0].verdict
    if not against:
        return f"{formatting.count(count, 'model')} side by side"
    tied = [item.other.model.name for item in against if not item.comparison.separated]
    if tied and all(both_outlast_suite(item.comparison, filters.suite.trips) for item in against):
        damaged, trips = thresholds.named(filters.threshold), filters.suite.trips
        return (
            f"All {count} outlast the suite: after {trips} round trips, fewer than half of their "
            f"images are {damaged}"
        )
    if tied:
        others = formatting.listed(tied)
        return (
            f"{leader.model.name} keeps images usable longest, but not clearly longer than {others}"
        )
    # State the gap in usable trips, because half-lives longer than the suite are unknown.
    gaps = [item.comparison.usable_trips for item in against]
    gap = _gap_phrase(min(gaps, key=lambda difference: difference.estimate))
    return f"{leader.model.name} keeps images usable longest of the {count}{gap}"


def reach(comparison: Comparison) -> float:
    """Return the largest distance from zero of the difference and its interval."""
    bounds = comparison.usable_trips.interval
    ends: list[float | None] = [comparison.usable_trips.estimate]
    ends += [bounds.low, bounds.high] if bounds else []
    return max(abs(end) for end in ends if end is not None)


def curves(rows: Sequence[BoardRow], filters: BoardFilters) -> Chart:
    with_results = [
        Curve.from_json(row.model.name, row.standing.curve) for row in rows if row.standing
    ]
    return retention_chart(
        with_results,
        filters.suite.trips,
        subtitle=f"Share kept ({formatting.metric_label(filters.metric)}), mean over cases with "
        "95\u00a0% band. "
        "A blank card of the image’s mean colour would keep about 0\u00a0%.",
        about=f"{filters.suite}, by {formatting.metric_label(filters.metric)}",
        file_name="-".join(["compare", *(row.model.slug for row in rows), filters.suite.key]),
    )


def parts(board_query: BoardQuery, rows: Sequence[BoardRow]) -> dict[str, Any]:
    """Return half-lives by part of the suite, and in how many parts each model wins."""
    by_scope = breakdowns.standings_by_scope(rows)
    suite_parts = breakdowns.parts(by_scope, {})
    by_scope = {part.scope: by_scope[part.scope] for part in suite_parts}
    lines = breakdowns.heat_lines(suite_parts, rows, by_scope, board_query.filters.suite.trips)
    # A line with equal half-lives has no winner.
    decided = [cells for _, cells in lines if not all(cell.best for cell in cells)]
    wins = [sum(cells[index].best for cells in decided) for index in range(len(rows))]
    return {"lines": lines, "wins": wins, "count": len(lines)}


def side_by_side(
    board_query: BoardQuery, rows: Sequence[BoardRow], comparisons: Comparisons | None, case: str
) -> dict[str, Any]:
    """Return each model's strip (row of images) of one case.

    This is the requested case, or else the case with the widest gap between models.
    """
    case_gaps = comparisons.case_gaps if comparisons else []
    requested = int(case) if case.isascii() and case.isdigit() and len(case) < 10 else None
    keys = [key for key in (requested, *(gap.case for gap in case_gaps)) if key]
    cases = Case.objects.filter(suite=board_query.filters.suite).select_related("image__stored")
    by_key = cases.in_bulk(keys)
    shown = next((by_key[key] for key in keys if key in by_key), None)
    if shown is None:
        return {}
    last = board_query.filters.suite.trips
    numbers = sorted({n for n in SHOWN if n < last} | {last})
    by_run = {row.run.pk: row for row in rows}
    chains = list(Chain.objects.filter(run__in=by_run, case=shown, repeat=0))
    for chain in chains:
        chain.case, chain.run = shown, by_run[chain.run_id].run
    chains.sort(key=lambda chain: list(by_run).index(chain.run_id))
    slugs = [row.model.slug for row in rows]
    return {
        "case": shown,
        "numbers": numbers,
        "strips": strips.short_strips(
            chains, last, board_query.filters.metric, numbers=numbers, every=True
        ),
        "case_gaps": [
            (
                by_key[gap.case],
                by_run[max(gap.auc_by_run, key=lambda run: gap.auc_by_run[run])].model.name,
                comparison_query(board_query, slugs, case=gap.case),
            )
            for gap in case_gaps
            if gap.case in by_key
        ],
    }


def suggestions(board_query: BoardQuery, rows: Sequence[BoardRow]) -> list[tuple[str, str]]:
    """Return suggested comparisons as (label, query string)."""
    ranked = [row for row in rows if row.group == RANKED]
    ranked.sort(key=board_order)
    references = [row for row in rows if row.group == REFERENCE]
    suggested = []
    if len(ranked) > 1:
        suggested.append(("The first three", ranked[:3]))
        suggested.append(("First and last", [ranked[0], ranked[-1]]))
    weights = [
        next((r for r in ranked if r.model.open_weights is kind), None) for kind in (True, False)
    ]
    if all(weights):
        suggested.append(("Best open and best closed weights", [row for row in weights if row]))
    if len(references) > 1:
        suggested.append(("The reference editors", references[:MAX_MODELS]))
    return [
        (label, comparison_query(board_query, [row.model.slug for row in group]))
        for label, group in suggested
    ]


def comparison_query(board_query: BoardQuery, slugs: Sequence[str], **more: Any) -> str:
    """Return the query string of a comparison, short enough to share."""
    extra = "".join(f"&{name}={value}" for name, value in more.items())
    shown = board_query.filters.without_model_filters().query(sort="rank", scope="all", every=False)
    return f"models={','.join(slugs)}&{shown}{extra}"


CACHE_SECONDS = 24 * 3600
#: Number of cases that the page offers: those with the widest gaps between models.
MAX_CASES = 8


@dataclass(frozen=True)
class CaseGap:
    """A case, and the AUC of each run on it. AUC is retention averaged over the trips."""

    case: int
    auc_by_run: dict[int, float]

    @property
    def width(self) -> float:
        return max(self.auc_by_run.values()) - min(self.auc_by_run.values())


@dataclass(frozen=True)
class Comparisons:
    """The leader compared with each other run, and the cases with the widest gaps."""

    leader: int
    against: dict[int, Comparison]
    case_gaps: list[CaseGap]


COMPARISONS = TypeAdapter(Comparisons | None)


def cached_comparisons(
    rows: Sequence[BoardRow], filters: BoardFilters, stamp: str
) -> Comparisons | None:
    """Compare these rows, or return the cached result.

    Returns None if fewer than two rows have results, or if these rows share no case.
    """
    runs = [row.run.pk for row in rows]
    key = f"{sorted(runs)}|{filters.metric}|{filters.threshold}|{stamp}"
    key = f"comparisons:{sha256(key.encode()).hexdigest()}"
    cached: bytes | None = cache.get(key)
    if cached is not None:
        return COMPARISONS.validate_json(cached)
    comparisons = _comparisons(rows, filters)
    # Cached as JSON, because a shared cache stores no Python objects.
    cache.set(key, COMPARISONS.dump_json(comparisons), CACHE_SECONDS)
    return comparisons


def _comparisons(rows: Sequence[BoardRow], filters: BoardFilters) -> Comparisons | None:
    chains, areas = _results([row.run.pk for row in rows], filters)
    trips, threshold = filters.suite.trips, filters.threshold
    values = {
        run: case_values(results, trips, threshold)
        for run, results in chains.items()
        if all(chain.is_decided(trips, threshold) for chain in results)
    }
    measured = [row for row in rows if row.run.pk in values]
    if len(measured) < 2:
        return None
    leader = min(measured, key=board_order).run.pk
    against = {}
    for row in measured:
        if row.run.pk == leader:
            continue
        try:
            against[row.run.pk] = compare(values[leader], values[row.run.pk])
        except ValueError:  # no case in common
            continue
    gaps = [CaseGap(case, auc) for case, auc in areas.items() if len(auc) == len(measured)]
    gaps.sort(key=lambda gap: gap.width, reverse=True)
    return Comparisons(leader, against, gaps[:MAX_CASES]) if against else None


def _results(
    runs: Sequence[int], filters: BoardFilters
) -> tuple[dict[int, list[events.ChainResult]], dict[int, dict[int, float]]]:
    """Return the chains by run, and the mean AUC by case and run."""
    rows = Chain.objects.filter(run__in=runs).values_list(
        *("run_id", "case_id", "repeat", "state", "outcome", "case__image__slug"),
        *("case__pair_slug", "case__category", "case__kind", "case__origin"),
        f"results__{filters.metric}",
    )
    chains: dict[int, list[events.ChainResult]] = defaultdict(list)
    areas: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run, case, repeat, state, outcome, image, pair, category, kind, origin, result in rows:
        if not result:
            continue
        case_key = events.Case(image, pair, category, kind, origin)
        ended = outcome if state == ChainState.PLAYED else ""
        chains[run].append(
            chain_of_numbers(filters.metric, case_key, repeat, ended, result, filters.suite.trips)
        )
        if result["auc"] is not None:
            areas[case][run].append(result["auc"])
    means = {
        case: {run: sum(values) / len(values) for run, values in by_run.items()}
        for case, by_run in areas.items()
    }
    return dict(chains), means


def verdict(comparison: Comparison, leader: str, other: str) -> str:
    """Return which model lasts longer and by how much, or that they cannot be distinguished."""
    if comparison.separated:
        estimate = comparison.usable_trips.estimate
        better, worse = (leader, other) if estimate >= 0 else (other, leader)
        return (
            f"{better} keeps images usable longer than "
            f"{worse}{_gap_phrase(comparison.usable_trips)}"
        )
    cases = formatting.count(comparison.cases, "case")
    return f"{leader} and {other} cannot be distinguished on {cases}"


def crossing(comparison: Comparison, leader: str, other: str, filters: BoardFilters) -> str:
    """Return why half-lives and usable trips order the models differently; empty if not."""
    if not comparison.crossed:
        return ""
    sides = [(comparison.first, leader), (comparison.second, other)]
    (shorter, ahead), (longer, behind) = sorted(
        sides, key=lambda side: side[0].usable_trips, reverse=True
    )
    trips, life = filters.suite.trips, thresholds.life(filters.threshold).lower()
    why = {
        "late": "its most durable images last longer",
        "early": "fewer of its images end early",
    }[comparison.crossed]
    return (
        f"{ahead} has more usable trips than {behind} but a shorter {life} "
        f"({formatting.half_life(shorter.half_life, trips)} against "
        f"{formatting.half_life(longer.half_life, trips)}), because {why}."
    )


def _gap_phrase(difference: Difference) -> str:
    """Return a phrase such as ", by 0.4 to 2.2 round trips"; empty if it would print 0."""
    size, bounds = abs(difference.estimate), difference.interval
    if bounds is None:
        return f", by {formatting.in_trips(size, 0)}" if round(size, 1) else ""
    ends = sorted(abs(end) for end in (bounds.low, bounds.high) if end is not None)
    return f", by {formatting.interval(ends[0], ends[-1]).replace('–', ' to ')} round trips"


def both_outlast_suite(comparison: Comparison, trips: int) -> bool:
    """Return True if both models outlast the suite, so that more cases cannot help."""
    both = comparison.first.usable_trips, comparison.second.usable_trips
    return min(both) >= trips - 0.05


def distinguishing_hint(comparison: Comparison, trips: int) -> str:
    """Return how to distinguish the models; empty if they are distinguished already."""
    if comparison.separated:
        return ""
    if both_outlast_suite(comparison, trips):
        return "both outlast this suite: more trips or a stricter threshold may show a difference"
    difference = comparison.usable_trips
    if difference.interval is None:
        return "too few images to decide"
    if difference.more_cases is None:
        return "it would take too many cases to show a difference of this size"
    if difference.more_cases == 0:
        return "a few more cases would decide which lasts longer"
    more = formatting.count(difference.more_cases, "more case")
    return f"about {more} would show a difference of this size"
