"""A few models side by side, on the cases they share.

The one page that computes: paired differences exist for every choice of models,
so they are worked out when somebody asks, from the results kept with each chain,
and then kept until a standing changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from django.core.cache import cache

from evaluation.analysis.case_values import case_values
from evaluation.analysis.comparison import Comparison, Difference, compare
from evaluation.analysis.events import Case, ChainResult
from evaluation.analysis.standings import chain_of_numbers
from leaderboard import formatting
from leaderboard.board.row import BoardFilters, BoardRow, board_order
from leaderboard.models import Chain
from leaderboard.models.runs import ChainState

KEPT_FOR = 24 * 3600
#: How many cases are offered where the models differ most.
DUELS = 8


@dataclass(frozen=True)
class Duel:
    """One case: its number, and how much of the picture each run kept on it (AUC)."""

    case: int
    kept: dict[int, float]

    def lead(self, run: int) -> float:
        """How far this run is before the best of the others."""
        others = [kept for other, kept in self.kept.items() if other != run]
        return self.kept[run] - max(others, default=0)


@dataclass(frozen=True)
class Contest:
    """The leader against each other run, and the cases on which all of them differ most."""

    leader: int
    against: dict[int, Comparison]
    duels: list[Duel]


def contest(rows: Sequence[BoardRow], filters: BoardFilters, stamp: str) -> Contest | None:
    """Compare these rows; None where fewer than two have results, or they share no case."""
    runs = [row.run.pk for row in rows]
    key = f"{sorted(runs)}|{filters.metric}|{filters.level}|{stamp}"
    key = f"contest:{sha256(key.encode()).hexdigest()}"
    found = cache.get(key)
    if found is None:
        found = _contest(rows, filters) or ""
        cache.set(key, found, KEPT_FOR)
    return found or None


def _contest(rows: Sequence[BoardRow], filters: BoardFilters) -> Contest | None:
    chains, kept = _results([row.run.pk for row in rows], filters)
    trips, level = filters.suite.trips, filters.level
    values = {
        run: case_values(own, trips, level)
        for run, own in chains.items()
        if all(chain.tells(trips, level) for chain in own)
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
    shared = [Duel(case, auc) for case, auc in kept.items() if len(auc) == len(measured)]
    shared.sort(key=lambda duel: min(duel.kept.values()) - max(duel.kept.values()))
    return Contest(leader, against, shared[:DUELS]) if against else None


def _results(
    runs: Sequence[int], filters: BoardFilters
) -> tuple[dict[int, list[ChainResult]], dict[int, dict[int, float]]]:
    """Chains by run, and the mean AUC by case and run."""
    rows = Chain.objects.filter(run__in=runs).values_list(
        *("run_id", "case_id", "repeat", "state", "outcome", "case__picture__slug"),
        *("case__pair_slug", "case__category", "case__kind", f"results__{filters.metric}"),
    )
    chains: dict[int, list[ChainResult]] = defaultdict(list)
    areas: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run, case, repeat, state, outcome, picture, pair, category, kind, result in rows:
        if not result:
            continue
        place = Case(picture, pair, category, kind)
        ended = outcome if state == ChainState.PLAYED else ""
        chains[run].append(
            chain_of_numbers(filters.metric, place, repeat, ended, result, filters.suite.trips)
        )
        if result["auc"] is not None:
            areas[case][run].append(result["auc"])
    kept = {
        case: {run: sum(values) / len(values) for run, values in by_run.items()}
        for case, by_run in areas.items()
    }
    return dict(chains), kept


def verdict(comparison: Comparison, leader: str, other: str) -> str:
    """Who lasts longer and by how much, or that nobody can tell, in one sentence."""
    if comparison.separated:
        estimate = comparison.usable_trips.estimate
        better, worse = (leader, other) if estimate >= 0 else (other, leader)
        return f"{better} stays usable longer than {worse}{_by(comparison.usable_trips)}"
    return (
        f"{leader} and {other} cannot be told apart on {formatting.count(comparison.cases, 'case')}"
    )


def _by(difference: Difference) -> str:
    """ ", by 0.4 to 2.2 round trips"; empty where less than a tenth of a trip is all there is."""
    size, bounds = abs(difference.estimate), difference.interval
    if bounds is None:
        return f", by {formatting.in_trips(size, 0)}" if round(size, 1) else ""
    ends = sorted(abs(end) for end in (bounds.low, bounds.high) if end is not None)
    if not round(ends[-1], 1):
        return ""
    return f", by {formatting.interval(ends[0], ends[-1]).replace('–', ' to ')} round trips"


def nobody_reached(comparison: Comparison, trips: int) -> bool:
    """Whether both outlast the suite: then no number of cases tells which lasts longer."""
    both = comparison.first.usable_trips, comparison.second.usable_trips
    return min(both) >= trips - 0.05


def outlook(comparison: Comparison, trips: int) -> str:
    """What would settle it; empty where it is settled."""
    if comparison.separated:
        return ""
    if nobody_reached(comparison, trips):
        return "both outlast this suite: more trips would tell, or a stricter “until”"
    decisive = comparison.usable_trips
    if decisive.interval is None:
        return "too few pictures to tell"
    if decisive.more_cases is None:
        return "no number of cases in reach would show a difference of this size"
    if decisive.more_cases == 0:
        return "a few more cases would settle it"
    more = formatting.count(decisive.more_cases, "more case")
    return f"about {more} would show a difference of this size"
