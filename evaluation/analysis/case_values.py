"""A run case by case: the values whose mean over cases is the run's number.

Usable trips, AUC and curve of a run are means over its cases, so intervals, ranks and
comparisons need these values alone, never the chains again. Where we lost a chain its
case has a pseudo-value (Andersen, Klein & Rosthøj 2003): what the category's number owes
to this case. The mean stays exactly the run's number.

What a site keeps of a run, so that it can rank at any time: per metric and level
`CaseValues.aligned(cases)`, one float per case of the suite in the suite's order. A scope
is a selection of them (`ranking.rank_scope`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.analysis.covariance import Design
from evaluation.analysis.events import (
    BROKEN,
    KNOWN,
    Case,
    ChainResult,
    Event,
    check,
    events_of,
)
from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.analysis.survival import Floats, drops, in_order


@dataclass(frozen=True)
class CaseValues:
    """One run by one metric at one level, a row per case that was played.

    `curve` has n = 0..N. AUC and curve are NaN where all chains of the run were lost, and
    from where on one of them was stopped because its end was known: a mean of the others
    would be one of the survivors.
    """

    design: Design
    trips: int
    usable: Floats
    auc: Floats
    curve: Floats

    @property
    def cases(self) -> tuple[Case, ...]:
        return self.design.cases

    def only(self, cases: Sequence[Case]) -> CaseValues:
        """The values of these cases, in their order; KeyError where one is not there."""
        place = {case: row for row, case in enumerate(self.cases)}
        rows = [place[case] for case in cases]
        return CaseValues(
            Design(cases), self.trips, self.usable[rows], self.auc[rows], self.curve[rows]
        )

    def aligned(self, cases: Sequence[Case]) -> Floats:
        """Usable trips in the order of these cases, NaN for those that are not there."""
        place = dict(zip(self.cases, self.usable, strict=True))
        return np.array([place.get(case, np.nan) for case in cases])


def case_values(
    chains: Sequence[ChainResult], trips: int, level: float = DEFAULT_LEVEL
) -> CaseValues:
    """The values of a run's cases; a case that we lost before its first trip has none."""
    check(chains, trips)
    played = [chain for chain in chains if chain.played]
    return values_by_level(played, [events_of(played, trips, level)], trips)[0]


def values_by_level(
    chains: Sequence[ChainResult], events: Iterable[Sequence[Event]], trips: int
) -> list[CaseValues]:
    """The values from chains that were played, at each level; `events` has those of the chains there.

    AUC and curve know no level, so they are the same arrays in all of them.
    """
    cases = sorted({chain.case for chain in chains})
    place = {case: row for row, case in enumerate(cases)}
    rows = np.array([place[chain.case] for chain in chains], dtype=np.intp)
    design = Design(cases)
    category = design.category
    curves = np.array([carried(chain, trips) for chain in chains]).reshape(-1, trips + 1)
    segments = _segments(chains, curves)
    auc = _filled(_by_case(segments, rows, len(cases)), category).mean(axis=1)
    curve = _filled(_by_case(curves, rows, len(cases)), category)
    if (last := last_shown(chains, trips)) < trips:
        auc[:], curve[:, last + 1 :] = np.nan, np.nan
    return [
        CaseValues(design, trips, _usable(own, trips, rows, category), auc, curve) for own in events
    ]


def last_shown(chains: Iterable[ChainResult], trips: int) -> int:
    """The last trip of which every chain tells what was kept: none was stopped before it."""
    ends = (len(chain.retention) for chain in chains if chain.outcome == KNOWN)
    return min(trips, min(ends, default=trips))


def carried(chain: ChainResult, trips: int) -> Floats:
    """Q(0..N), with what is carried after a broken chain; NaN after a lost one.

    A broken chain carries 0: there is no picture left. One that broke below 0
    stays where it was, so that breaking never lifts the mean.
    """
    curve = np.full(trips + 1, np.nan)
    seen = (1.0, *chain.retention)[: trips + 1]
    curve[: len(seen)] = seen
    if chain.outcome in BROKEN:
        curve[len(seen) :] = min(0.0, seen[-1])
    return curve


def chain_auc(chain: ChainResult, trips: int) -> float | None:
    """The AUC of one chain; what we lost of it counts 0. None where it was stopped: not known."""
    if last_shown([chain], trips) < trips:
        return None
    segments = _segments([chain], carried(chain, trips)[None])
    return float(np.nan_to_num(segments).mean())


def case_auc(chains: Sequence[ChainResult], trips: int) -> float | None:
    """The AUC of one case from all its chains; None where they do not tell it to the end."""
    if last_shown(chains, trips) < trips:
        return None
    curves = np.array([carried(chain, trips) for chain in chains])
    rows = np.zeros(len(chains), dtype=np.intp)
    auc = float(_by_case(_segments(chains, curves), rows, 1).mean())
    return auc if math.isfinite(auc) else None


def _segments(chains: Sequence[ChainResult], curves: Floats) -> Floats:
    """The trapezoids of clip(Q, 0, 1), one for each trip; their mean is the AUC.

    A broken chain has none after its last whole trip: half a trapezoid down to the break
    would be worth more on a short suite than on a long one.
    """
    kept = np.clip(curves, 0, 1)
    segments = (kept[:, 1:] + kept[:, :-1]) / 2
    for own, chain in zip(segments, chains, strict=True):
        if chain.outcome in BROKEN:
            own[len(chain.retention) :] = 0
    return segments


def _usable(
    events: Sequence[Event], trips: int, rows: NDArray[np.intp], category: NDArray[np.intp]
) -> Floats:
    """Usable trips by case: the mean time of its chains, or its pseudo-value."""
    times = np.array([found.time for found in events])
    ended = np.array([found.cause is not None for found in events], dtype=bool)
    values = _by_case(times[:, None], rows, len(category))[:, 0]
    for code in set(category[rows[~ended & (times < trips)]].tolist()):
        own = np.flatnonzero(category == code)
        chains = np.flatnonzero(category[rows] == code)
        chains = chains[in_order(times[chains], ended[chains])]
        case = np.searchsorted(own, rows[chains])
        weights = 1 / np.bincount(case)[case]
        # All cases, then all but one after another.
        tables = np.vstack([np.ones(len(own)), 1 - np.eye(len(own))])[:, case] * weights
        falls = drops(tables, ended[chains])
        means = falls @ times[chains] + (1 - falls.sum(axis=1)) * trips
        if len(own) > 1:
            found = len(own) * means[0] - (len(own) - 1) * means[1:]
            values[own] = found + means[0] - found.mean()
        else:
            values[own] = means[0]
    return values


def _by_case(values: Floats, rows: NDArray[np.intp], cases: int) -> Floats:
    """The mean over the repeats of each case that are there; NaN where none is."""
    there = ~np.isnan(values)
    sums, counts = (np.zeros((cases, values.shape[1])) for _ in range(2))
    np.add.at(sums, rows, np.where(there, values, 0))
    np.add.at(counts, rows, there)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def _filled(values: Floats, category: NDArray[np.intp]) -> Floats:
    """Values whose mean over cases is that of the cases that are there, trip by trip.

    A case that was lost takes the mean of its category, a category that was lost the mean
    of the others; who is there speaks for them, so lies the further from the mean.
    """
    there = ~np.isnan(values)
    if there.all() or not len(values):
        return values
    members = np.eye(category.max() + 1)[:, category]
    counts, present = members.sum(axis=1)[:, None], members @ there
    means = np.divide(
        members @ np.where(there, values, 0),
        present,
        out=np.full(present.shape, np.nan),
        where=present > 0,
    )
    known = (present > 0).sum(axis=0)
    overall = np.divide(
        np.nansum(means, axis=0), known, out=np.full(len(known), np.nan), where=known > 0
    )
    speaks_for = counts / np.maximum(present, 1) * len(counts) / np.maximum(known, 1)
    apart = np.where(there, values - means[category], 0) * speaks_for[category]
    return np.where(np.isnan(means), overall, means)[category] + apart
