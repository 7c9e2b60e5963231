"""Would another choice have given another order? Kendall's tau with the board's own.

Metrics, levels and numbers of trips are choices of ours, categories, kinds and pairs are
choices of the suite; and playing again is a matter of luck.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.analysis.case_values import CaseValues
from evaluation.analysis.events import Case, ChainResult
from evaluation.analysis.half_life import summarise
from evaluation.analysis.levels import DEFAULT_LEVEL

#: What a board is made by: a metric and a level.
Choice = tuple[str, float]


@dataclass(frozen=True)
class Agreement:
    """The board's order beside the order by one other choice.

    `about` = "metric", "level", "trips", or what was left out: "category", "kind", "pair";
    `choice` = which. `tau` is 1 for the same order and -1 for the reverse; None where
    fewer than two runs have both, or an order has no first.
    """

    about: str
    choice: str
    runs: int
    tau: float | None


@dataclass(frozen=True)
class Retest:
    """The board by the first playing of its repeated cases, by the second, and so on.

    `tau` = agreement of their orders, `difference` = by how many usable trips a run's two
    playings differ; means over all pairs of playings.
    """

    repeats: int
    cases: int
    runs: int
    tau: float | None
    difference: float


def robustness(
    boards: Mapping[Choice, Mapping[str, CaseValues]],
    headline: Choice,
    usable_by_trip: Mapping[str, Sequence[float | None]],
) -> list[Agreement]:
    """The headline's order beside every other: boards = the runs' values by metric and level.

    `usable_by_trip` = of the headline, by run, at n = 0..N (`Summary.usable_by_trip`).
    """
    own = boards[headline]
    order = _means(own)
    return [
        Agreement(about, choice, len(order.keys() & other.keys()), kendall_tau(order, other))
        for about, choice, other in itertools.chain(
            _other_boards(boards, headline), _shorter(usable_by_trip), _leaving_out(own)
        )
    ]


def kendall_tau(one: Mapping[str, float], two: Mapping[str, float]) -> float | None:
    """Kendall's tau-b of two orders, on the runs that both have."""
    from scipy.stats import kendalltau

    runs = sorted(one.keys() & two.keys())
    if len(runs) < 2:
        return None
    # Rounded, so that runs that are equal but for the order of a sum are tied.
    tau = kendalltau(*([round(side[run], 9) for run in runs] for side in (one, two))).statistic
    return None if np.isnan(tau) else round(float(tau), 9)


def retest(
    runs: Mapping[str, Sequence[ChainResult]], trips: int, level: float = DEFAULT_LEVEL
) -> Retest | None:
    """How far playing again keeps the order, on the cases that every run played repeatedly."""
    playings = {name: _by_repeat(chains) for name, chains in runs.items()}
    repeats = sorted(set.intersection(*(set(own) for own in playings.values()))) if runs else []
    shared = [set(own[repeat]) for own in playings.values() for repeat in repeats]
    cases = set.intersection(*shared) if shared else set()
    if len(repeats) < 2 or not cases:
        return None
    boards: list[dict[str, float]] = []
    for repeat in repeats:
        found = {
            name: summarise([own[repeat][case] for case in sorted(cases)], trips, level)
            for name, own in playings.items()
        }
        boards.append({name: summary.usable_trips or 0.0 for name, summary in found.items()})
    both = list(itertools.combinations(boards, 2))
    taus = [tau for one, two in both if (tau := kendall_tau(one, two)) is not None]
    return Retest(
        repeats=len(repeats),
        cases=len(cases),
        runs=len(runs),
        tau=statistics.fmean(taus) if taus else None,
        difference=statistics.fmean(
            abs(one[name] - two[name]) for one, two in both for name in runs
        ),
    )


def _by_repeat(chains: Sequence[ChainResult]) -> Mapping[int, Mapping[Case, ChainResult]]:
    """What was played of each repeat, by case."""
    found: dict[int, dict[Case, ChainResult]] = defaultdict(dict)
    for chain in chains:
        if chain.played:
            found[chain.repeat][chain.case] = chain
    return found


def _other_boards(
    boards: Mapping[Choice, Mapping[str, CaseValues]], headline: Choice
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Other metrics at the headline's level, other levels of the headline's metric."""
    for (metric, level), board in boards.items():
        if metric != headline[0] and level == headline[1]:
            yield "metric", metric, _means(board)
        elif metric == headline[0] and level != headline[1]:
            yield "level", f"{level:g}", _means(board)


def _shorter(
    usable_by_trip: Mapping[str, Sequence[float | None]],
) -> Iterator[tuple[str, str, dict[str, float]]]:
    longest = max(map(len, usable_by_trip.values()), default=0)
    for number in range(1, longest - 1):
        shorter = {
            name: value
            for name, usable in usable_by_trip.items()
            if number < len(usable) and (value := usable[number]) is not None
        }
        yield "trips", str(number), shorter


def _leaving_out(
    board: Mapping[str, CaseValues],
) -> Iterator[tuple[str, str, dict[str, float]]]:
    cases = sorted({case for values in board.values() for case in values.cases})
    for about in ("category", "kind", "pair"):
        for name in sorted({getattr(case, about) for case in cases}):
            kept = [case for case in cases if getattr(case, about) != name]
            if kept:
                yield about, name, _means(board, set(kept))


def _means(board: Mapping[str, CaseValues], kept: set[Case] | None = None) -> dict[str, float]:
    found = {}
    for name, values in board.items():
        cases = [case for case in values.cases if kept is None or case in kept]
        if cases:
            part = values.only(cases)
            found[name] = float(part.design.mean(part.usable))
    return found
