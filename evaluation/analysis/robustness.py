"""Robustness of a board's order against other choices and against reruns (Kendall's tau).

The benchmark chose the metric, the threshold and the number of trips. The suite chose categories,
kinds, origins and pairs. Reruns differ by chance.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.analysis.events import BREAKDOWNS, LOST, Case, ChainResult, event
from evaluation.analysis.half_life import summarise
from evaluation.analysis.survival import case_weights
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD

#: The metric and the threshold of a board.
Choice = tuple[str, float]
#: The usable trips of a run, by case.
Usable = Mapping[Case, float]


@dataclass(frozen=True)
class Agreement:
    """Agreement of the board's order with the order under one other choice.

    `about` is "metric", "threshold" or "trips", and `choice` is the value used instead; or `about`
    is one of BREAKDOWNS, and `choice` is the part that is left out. `tau` is 1 for the same order
    and -1 for the reverse order. It is None if fewer than two runs are in both orders, or if all
    runs of an order are tied.
    """

    about: str
    choice: str
    runs: int
    tau: float | None


@dataclass(frozen=True)
class Retest:
    """Agreement between boards that each use one repeat: the first, the second and so on.

    `tau` (of two orders) and `difference` (in a run's usable trips) are means over all pairs of
    these boards.
    """

    repeats: int
    cases: int
    runs: int
    tau: float | None
    difference: float


def robustness(
    boards: Mapping[Choice, Mapping[str, Usable]],
    headline: Choice,
    usable_by_trip: Mapping[str, Sequence[float | None]],
) -> list[Agreement]:
    """Compare the order of the `headline` board with the order under every other choice.

    `boards` has the usable trips of the runs for each metric and threshold. `usable_by_trip` has
    each run's `Summary.usable_by_trip` for the headline: usable trips of the first n = 0..N trips.
    """
    board = boards[headline]
    order = _means(board)
    return [
        Agreement(about, choice, len(order.keys() & other.keys()), kendall_tau(order, other))
        for about, choice, other in itertools.chain(
            _other_boards(boards, headline), _shorter(usable_by_trip), _leaving_out(board)
        )
    ]


def kendall_tau(first: Mapping[str, float], second: Mapping[str, float]) -> float | None:
    """Return Kendall's tau-b of two orders, on the runs that are in both."""
    from scipy.stats import kendalltau

    runs = sorted(first.keys() & second.keys())
    if len(runs) < 2:
        return None
    # Runs that differ only by floating-point errors must tie.
    tau = kendalltau(*([round(side[run], 9) for run in runs] for side in (first, second))).statistic
    return None if np.isnan(tau) else round(float(tau), 9)


def retest(
    runs: Mapping[str, Sequence[ChainResult]], trips: int, threshold: float = DEFAULT_THRESHOLD
) -> Retest | None:
    """Compare the boards of all repeats, on the cases that every run played in every repeat."""
    repeats_by_run = {name: _by_repeat(chains) for name, chains in runs.items()}
    repeats = (
        sorted(set.intersection(*(set(run_repeats) for run_repeats in repeats_by_run.values())))
        if runs
        else []
    )
    shared = [
        set(run_repeats[repeat]) for run_repeats in repeats_by_run.values() for repeat in repeats
    ]
    cases = set.intersection(*shared) if shared else set()
    if len(repeats) < 2 or not cases:
        return None
    boards: list[dict[str, float]] = []
    for repeat in repeats:
        summaries = {
            name: summarise([run_repeats[repeat][case] for case in sorted(cases)], trips, threshold)
            for name, run_repeats in repeats_by_run.items()
        }
        boards.append({name: summary.usable_trips or 0.0 for name, summary in summaries.items()})
    board_pairs = list(itertools.combinations(boards, 2))
    taus = [tau for first, second in board_pairs if (tau := kendall_tau(first, second)) is not None]
    return Retest(
        repeats=len(repeats),
        cases=len(cases),
        runs=len(runs),
        tau=statistics.fmean(taus) if taus else None,
        difference=statistics.fmean(
            abs(first[name] - second[name]) for first, second in board_pairs for name in runs
        ),
    )


def _by_repeat(chains: Sequence[ChainResult]) -> Mapping[int, Mapping[Case, ChainResult]]:
    """Group played chains by repeat and case."""
    by_repeat: dict[int, dict[Case, ChainResult]] = defaultdict(dict)
    for chain in chains:
        if chain.played:
            by_repeat[chain.repeat][chain.case] = chain
    return by_repeat


def _other_boards(
    boards: Mapping[Choice, Mapping[str, Usable]], headline: Choice
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield the orders by other metrics at the headline's threshold, then by other thresholds."""
    for (metric, threshold), board in boards.items():
        if metric != headline[0] and threshold == headline[1]:
            yield "metric", metric, _means(board)
        elif metric == headline[0] and threshold != headline[1]:
            yield "threshold", f"{threshold:g}", _means(board)


def _shorter(
    usable_by_trip: Mapping[str, Sequence[float | None]],
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield the orders by usable trips within the first 1, 2, ... trips."""
    longest = max(map(len, usable_by_trip.values()), default=0)
    for number in range(1, longest - 1):
        shorter = {
            name: value
            for name, usable in usable_by_trip.items()
            if number < len(usable) and (value := usable[number]) is not None
        }
        yield "trips", str(number), shorter


def _leaving_out(
    board: Mapping[str, Usable],
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield the orders without each category, kind, origin and pair."""
    cases = sorted({case for usable in board.values() for case in usable})
    for about in BREAKDOWNS:
        for name in sorted({getattr(case, about) for case in cases}):
            remaining = [case for case in cases if getattr(case, about) != name]
            if remaining:
                yield about, name, _means(board, set(remaining))


def _means(board: Mapping[str, Usable], selected: set[Case] | None = None) -> dict[str, float]:
    means = {}
    for name, usable in board.items():
        cases = [case for case in usable if selected is None or case in selected]
        if cases:
            means[name] = float(case_weights(cases) @ np.array([usable[case] for case in cases]))
    return means


@dataclass(frozen=True)
class RepeatSpread:
    """Standard deviations of chains' usable trips, between reruns and between cases.

    `rerun` is the spread between reruns of one case; `case` is the part of the spread between cases
    that reruns do not explain. A small `friedman_p` means that whole repeats differ, for example
    because the provider changed the model. Both spreads are None with fewer than two repeats, and
    the results of Friedman's test are None with fewer than three.
    """

    repeats: int
    cases: int
    rerun: float | None
    case: float | None
    friedman_statistic: float | None
    friedman_p: float | None

    @property
    def icc(self) -> float | None:
        """Return the intraclass correlation, the share of variance explained by the case.

        It is 1 if reruns are equal and 0 if cases differ only by chance.
        """
        if self.rerun is None or self.case is None:
            return None
        total = self.rerun**2 + self.case**2
        return self.case**2 / total if total else None


def repeat_spread(
    chains: Sequence[ChainResult], trips: int, threshold: float = DEFAULT_THRESHOLD
) -> RepeatSpread:
    """Return the spreads of reruns and cases (variance components), and Friedman's test."""
    times: dict[Case, dict[int, float]] = defaultdict(dict)
    for chain in chains:
        if chain.outcome != LOST:
            times[chain.case][chain.repeat] = event(chain, trips, threshold).time
    repeats = len({repeat for runs in times.values() for repeat in runs})
    rerun, case = _components([list(runs.values()) for runs in times.values()])
    statistic, p = _friedman([runs for runs in times.values() if len(runs) == repeats])
    return RepeatSpread(repeats, len(times), rerun, case, statistic, p)


def _components(groups: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    """Return standard deviations within and between groups, by analysis of variance."""
    sizes = np.array([len(group) for group in groups])
    freedom = int((sizes - 1).sum())
    if freedom < 1 or len(groups) < 2:
        return None, None
    means = np.array([np.mean(group) for group in groups])
    within = sum(float(np.var(g)) * len(g) for g in groups) / freedom
    grand = float(sizes @ means / sizes.sum())
    between = float(sizes @ (means - grand) ** 2) / (len(groups) - 1)
    typical = (sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(groups) - 1)
    return math.sqrt(within), math.sqrt(max(0.0, (between - within) / typical))


def _friedman(blocks: Sequence[dict[int, float]]) -> tuple[float | None, float | None]:
    from scipy.stats import friedmanchisquare

    if len(blocks) < 2 or len(blocks[0]) < 3:
        return None, None
    columns = np.array([[block[repeat] for repeat in sorted(block)] for block in blocks])
    if (columns == columns[:, :1]).all():
        return 0.0, 1.0  # scipy would divide by zero
    result = friedmanchisquare(*columns.T)
    return float(result.statistic), float(result.pvalue)
