"""The share of cases still usable after each trip, and the causes that ended the others.

All categories have equal weight, because a suite's number of cases per category is an accident of
curation. All cases of a category have equal weight, and a case's repeats share it. Survival is
therefore the mean of one Kaplan-Meier curve per category. Without interrupted chains, a single
weighted curve over all cases would be equal. With interrupted chains, it would differ: an
interruption in one category would shift weight to the other categories, so that adding a censored
case could lower survival. The share ended by each cause is Aalen-Johansen's estimate, by category.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from evaluation.analysis.events import CAUSES, TOLERANCE, Case, ChainResult, Event

Floats = NDArray[np.float64]


def case_weights(cases: Sequence[Case]) -> Floats:
    """Return the weight of each case. All weights sum to 1, and each category has an equal part."""
    sizes = Counter(case.category for case in cases)
    return np.array([1 / len(sizes) / sizes[case.category] for case in cases])


def chain_weights(chains: Sequence[ChainResult]) -> Floats:
    """Return the weight of each chain; the repeats of a case share the case's weight."""
    cases = [chain.case for chain in chains]
    repeats = Counter(cases)
    weight = dict(zip(repeats, case_weights(list(repeats)), strict=True))
    return np.array([weight[case] / repeats[case] for case in cases])


def by_category(chains: Sequence[ChainResult]) -> Mapping[str, NDArray[np.intp]]:
    """Return the indices of each category's chains."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, chain in enumerate(chains):
        rows[chain.category].append(row)
    return {category: np.array(rows[category]) for category in sorted(rows)}


def order_by_time(times: Floats, ended: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the indices of chains by time; at equal times, censored chains are last."""
    return np.lexsort((~ended, times))


def drops(weights: Floats, ended: NDArray[np.bool_]) -> Floats:
    """Return the drop of the Kaplan-Meier curve at each chain, for each row of weights.

    Chains must be in `order_by_time`. We do not use a library: most take only one row of weights at
    a time, pseudo-values need many, and scipy would take 60 MB in every web process.
    """
    at_risk = np.cumsum(weights[..., ::-1], axis=-1)[..., ::-1]
    hazard = np.where(ended, weights, 0.0)
    np.divide(hazard, at_risk, out=hazard, where=at_risk > 0)
    after = np.cumprod(1 - hazard, axis=-1)
    before = np.ones_like(after)
    before[..., 1:] = after[..., :-1]
    return before - after


def half_life(ends: Floats, survival: Floats) -> float | None:
    """Return the first of `ends` after which at most half survive; None if more than half last."""
    # Kaplan-Meier multiplies fractions: 3/4 x 2/3 must still count as one half.
    reached = np.flatnonzero(survival <= 0.5 + TOLERANCE)
    return float(ends[reached[0]]) if reached.size else None


@dataclass(frozen=True)
class Survival:
    """The mean survival curve of chains, stored as its drops in order of time.

    Each drop has the time and the cause (an index in `CAUSES`) of a chain's end. The share of cases
    that remains after all drops is still usable after `trips` trips.
    """

    trips: int
    times: Floats
    causes: NDArray[np.intp]
    drops: Floats

    @classmethod
    def of(cls, chains: Sequence[ChainResult], events: Sequence[Event], trips: int) -> Self:
        """Return the survival of played chains, given their ends."""
        return cls.by_threshold(chains, [events], trips)[0]

    @classmethod
    def by_threshold(
        cls, chains: Sequence[ChainResult], events: Iterable[Sequence[Event]], trips: int
    ) -> list[Self]:
        """Return the survival of played chains at each threshold, given their ends for each."""
        weights = chain_weights(chains)
        categories = by_category(chains).values()
        number = {cause: index for index, cause in enumerate(CAUSES)}
        curves = []
        for threshold_events in events:
            times = np.array([end.time for end in threshold_events])
            ended = np.array([end.cause is not None for end in threshold_events])
            falls = np.zeros(len(chains))
            for rows in categories:
                rows = rows[order_by_time(times[rows], ended[rows])]
                falls[rows] = drops(weights[rows], ended[rows]) * weights[rows].sum()
            causes = np.array([number[end.cause] if end.cause else -1 for end in threshold_events])
            order = np.flatnonzero(ended)
            order = order[np.argsort(times[order], kind="stable")]
            curves.append(cls(trips, times[order], causes[order], falls[order]))
        return curves

    def at(self, when: Floats) -> Floats:
        """Return the share still usable after each of these times."""
        fallen = np.append(0.0, np.cumsum(self.drops))
        return np.clip(1 - fallen[np.searchsorted(self.times, when, side="right")], 0, 1)

    def usable_trips(self, until: float | Floats) -> Floats:
        """Return the area under the curve up to each time (the restricted mean lifetime)."""
        lasting = 1 - self.drops.sum()
        fallen = np.vecdot(np.minimum.outer(until, self.times), self.drops)
        return np.asarray(fallen + lasting * until)

    @property
    def half_life(self) -> float | None:
        """Return the time by which half of the cases have ended; None if fewer than half have."""
        return half_life(self.times, 1 - np.cumsum(self.drops))

    def incidence(self, when: Floats) -> dict[str, Floats]:
        """Return, for each cause that occurred, the share of cases it had ended by each time."""
        present = set(self.causes.tolist())
        shares = {}
        for index, cause in enumerate(CAUSES):
            if index in present:
                by_cause = self.causes == index
                fallen = np.append(0.0, np.cumsum(self.drops[by_cause]))
                shares[cause] = fallen[np.searchsorted(self.times[by_cause], when, side="right")]
        return shares

    def steps(self) -> tuple[list[float], list[float]]:
        """Return the curve as steps for a chart: times, and the share usable from each time on."""
        grid = np.unique(np.append(0.0, self.times))
        shares = self.at(grid)
        return [*grid.tolist(), float(self.trips)], [*shares.tolist(), float(shares[-1])]
