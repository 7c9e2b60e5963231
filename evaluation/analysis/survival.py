"""Share of cases that is still usable, and the causes that ended the others.

How cases are weighed. A suite's number of cases per category is an accident of
curation, so every category weighs the same, every case of a category the same, and
a case's repeats share its weight. Survival follows: one Kaplan-Meier curve per
category, then the mean of the curves. (One weighted curve over all cases would give
the same as long as nothing is lost. With lost chains it would let a loss in one
category shift weight to the others, so that adding a censored case could lower
survival.) The share ended by a cause is Aalen-Johansen's, category by category.
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
    """A weight for each of these cases; they sum to 1, and so many for every category."""
    sizes = Counter(case.category for case in cases)
    return np.array([1 / len(sizes) / sizes[case.category] for case in cases])


def chain_weights(chains: Sequence[ChainResult]) -> Floats:
    """A weight for each of these chains; they sum to 1, repeats share that of their case."""
    cases = [chain.case for chain in chains]
    repeats = Counter(cases)
    weight = dict(zip(repeats, case_weights(list(repeats)), strict=True))
    return np.array([weight[case] / repeats[case] for case in cases])


def by_category(chains: Sequence[ChainResult]) -> Mapping[str, NDArray[np.intp]]:
    """The places of each category's chains in `chains`."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, chain in enumerate(chains):
        rows[chain.category].append(row)
    return {category: np.array(rows[category]) for category in sorted(rows)}


def in_order(times: Floats, ended: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Chains in order of time; who ends and who is censored at the same time, in this order."""
    return np.lexsort((~ended, times))


def drops(weights: Floats, ended: NDArray[np.bool_]) -> Floats:
    """Return the falls of Kaplan-Meier's curve at each chain, for every row of weights.

    The chains lie `in_order`. Leaving out one case after another takes whole tables of
    weights, libraries take one; and scipy's weighs 60 MB in every web process.
    """
    at_risk = np.cumsum(weights[..., ::-1], axis=-1)[..., ::-1]
    hazard = np.where(ended, weights, 0.0)
    np.divide(hazard, at_risk, out=hazard, where=at_risk > 0)
    after = np.cumprod(1 - hazard, axis=-1)
    before = np.ones_like(after)
    before[..., 1:] = after[..., :-1]
    return before - after


@dataclass(frozen=True)
class Survival:
    """The mean survival curve of some chains, as the drops that it is made of.

    In order of time: when a chain ended, by which of the `CAUSES` (its number), and
    how far the curve falls there. What has not fallen by then is usable at `trips`.
    """

    trips: int
    times: Floats
    causes: NDArray[np.intp]
    drops: Floats

    @classmethod
    def of(cls, chains: Sequence[ChainResult], events: Sequence[Event], trips: int) -> Self:
        """Make the survival of played chains from the event of each."""
        return cls.by_level(chains, [events], trips)[0]

    @classmethod
    def by_level(
        cls, chains: Sequence[ChainResult], events: Iterable[Sequence[Event]], trips: int
    ) -> list[Self]:
        """Make the survival of played chains at each level; `events` holds theirs by level."""
        weights = chain_weights(chains)
        categories = by_category(chains).values()
        number = {cause: place for place, cause in enumerate(CAUSES)}
        curves = []
        for own in events:
            times = np.array([found.time for found in own])
            ended = np.array([found.cause is not None for found in own])
            falls = np.zeros(len(chains))
            for rows in categories:
                rows = rows[in_order(times[rows], ended[rows])]
                falls[rows] = drops(weights[rows], ended[rows]) * weights[rows].sum()
            causes = np.array([number[found.cause] if found.cause else -1 for found in own])
            order = np.flatnonzero(ended)
            order = order[np.argsort(times[order], kind="stable")]
            curves.append(cls(trips, times[order], causes[order], falls[order]))
        return curves

    def at(self, when: Floats) -> Floats:
        """The share that is still usable after each of these times."""
        fallen = np.append(0.0, np.cumsum(self.drops))
        return np.clip(1 - fallen[np.searchsorted(self.times, when, side="right")], 0, 1)

    def usable_trips(self, until: float | Floats) -> Floats:
        """The area under the curve from 0 to each of these times: the restricted mean."""
        lasting = 1 - self.drops.sum()
        fallen = np.vecdot(np.minimum.outer(until, self.times), self.drops)
        return np.asarray(fallen + lasting * until)

    @property
    def median(self) -> float | None:
        """When half of the cases have ended; None where they never do."""
        # Kaplan-Meier multiplies fractions: 3/4 x 2/3 must still count as one half.
        reached = np.flatnonzero(np.cumsum(self.drops) >= 0.5 - TOLERANCE)
        return float(self.times[reached[0]]) if reached.size else None

    def incidence(self, when: Floats) -> dict[str, Floats]:
        """The share that each cause has ended by each of these times; only of those that ended any."""
        there = set(self.causes.tolist())
        found = {}
        for place, cause in enumerate(CAUSES):
            if place in there:
                own = self.causes == place
                fallen = np.append(0.0, np.cumsum(self.drops[own]))
                found[cause] = fallen[np.searchsorted(self.times[own], when, side="right")]
        return found

    def steps(self) -> tuple[list[float], list[float]]:
        """The whole curve for drawing: its times, and the share that is usable from each on."""
        grid = np.unique(np.append(0.0, self.times))
        shares = self.at(grid)
        return [*grid.tolist(), float(self.trips)], [*shares.tolist(), float(shares[-1])]
