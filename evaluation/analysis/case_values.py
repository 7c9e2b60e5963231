"""Values of each case of a run, such as usable trips; their mean over cases is the run's result.

Usable trips, AUC and curve of a run are means over its cases, so intervals, ranks and comparisons
need only these values, not the chains. If the benchmark interrupted a chain (outcome "lost"), its
case gets a pseudo-value (Andersen, Klein & Rosthøj 2003): what the case contributes to the result
of its category. So the mean over cases remains exactly the run's result.

So that runs can be ranked at any time, the site stores `CaseValues.aligned(cases)` of each run,
metric and threshold: one float per case of the suite, in the suite's order. A scope (part of the
suite) uses some of these values (`ranking.rank_scope`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evaluation.analysis.covariance import Design
from evaluation.analysis.events import (
    BROKEN,
    KNOWN,
    Case,
    ChainResult,
    Event,
    check_chains,
    events_of,
)
from evaluation.analysis.survival import Floats, drops, order_by_time
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD


@dataclass(frozen=True)
class CaseValues:
    """The values of one run by one metric at one threshold, with a row for each played case.

    `ends` are the times at which chains ended. `survival` has a column for each of these times: the
    share still usable from then on. `usable` is the area under `survival`.

    `curve` has columns n = 0..N. From the first trip that a stopped chain lacks, the columns are
    NaN, because a mean of the other chains would favour survivors. If the benchmark interrupted all
    chains, the columns after their last trip are NaN too. In both cases `auc` is NaN.
    """

    design: Design
    trips: int
    ends: Floats
    survival: Floats
    usable: Floats
    auc: Floats
    curve: Floats

    @property
    def cases(self) -> tuple[Case, ...]:
        return self.design.cases

    def only(self, cases: Sequence[Case]) -> CaseValues:
        """Return the values of these cases, in their order. Raises KeyError."""
        row_of = {case: row for row, case in enumerate(self.cases)}
        rows = [row_of[case] for case in cases]
        return replace(
            self,
            design=Design(cases),
            survival=self.survival[rows],
            usable=self.usable[rows],
            auc=self.auc[rows],
            curve=self.curve[rows],
        )

    def survival_at(self, times: Floats) -> Floats:
        """Return the share that is still usable after each of these times."""
        shares = np.append(1.0, self.design.mean(self.survival))
        return np.asarray(shares[np.searchsorted(self.ends, times, side="right")])

    def aligned(self, cases: Sequence[Case]) -> Floats:
        """Return usable trips in the order of these cases; NaN for a missing case."""
        usable_by_case = dict(zip(self.cases, self.usable, strict=True))
        return np.array([usable_by_case.get(case, np.nan) for case in cases])


def case_values(
    chains: Sequence[ChainResult], trips: int, threshold: float = DEFAULT_THRESHOLD
) -> CaseValues:
    """Return the values of a run's cases, without cases interrupted before their first trip."""
    check_chains(chains, trips)
    played = [chain for chain in chains if chain.played]
    return values_by_threshold(played, [events_of(played, trips, threshold)], trips)[0]


def values_by_threshold(
    chains: Sequence[ChainResult], events: Iterable[Sequence[Event]], trips: int
) -> list[CaseValues]:
    """Return the values of played chains at each threshold.

    `events` has the chains' events at each threshold. AUC and curve do not depend on the threshold,
    so all results share the same arrays.
    """
    cases = sorted({chain.case for chain in chains})
    row_of = {case: row for row, case in enumerate(cases)}
    rows = np.array([row_of[chain.case] for chain in chains], dtype=np.intp)
    design = Design(cases)
    category = design.category
    curves = np.array([extended_curve(chain, trips) for chain in chains]).reshape(-1, trips + 1)
    segments = _segments(chains, curves)
    auc = _fill_missing(_mean_by_case(segments, rows, len(cases)), category).mean(axis=1)
    curve = _fill_missing(_mean_by_case(curves, rows, len(cases)), category)
    if (last := last_common_trip(chains, trips)) < trips:
        auc[:], curve[:, last + 1 :] = np.nan, np.nan
    results = []
    for threshold_events in events:
        ends, survival = _survival(threshold_events, trips, rows, category)
        usable = _area_under(ends, survival, trips)
        results.append(CaseValues(design, trips, ends, survival, usable, auc, curve))
    return results


def last_common_trip(chains: Iterable[ChainResult], trips: int) -> int:
    """Return the last trip of the shortest chain that was stopped early; `trips` if none was."""
    ends = (len(chain.retention) for chain in chains if chain.outcome == KNOWN)
    return min(trips, min(ends, default=trips))


def extended_curve(chain: ChainResult, trips: int) -> Floats:
    """Return Q(0..N), continued after a broken chain; NaN after an interruption.

    A broken chain continues with 0, because no image is left. If its retention was below 0 when it
    broke, it keeps that value, so that breaking never raises the mean.
    """
    curve = np.full(trips + 1, np.nan)
    retentions = (1.0, *chain.retention)[: trips + 1]
    curve[: len(retentions)] = retentions
    if chain.outcome in BROKEN:
        curve[len(retentions) :] = min(0.0, retentions[-1])
    return curve


def chain_auc(chain: ChainResult, trips: int) -> float | None:
    """Return the AUC of one chain, with 0 for interrupted trips; None if it was stopped early."""
    if last_common_trip([chain], trips) < trips:
        return None
    segments = _segments([chain], extended_curve(chain, trips)[None])
    return float(np.nan_to_num(segments).mean())


def case_auc(chains: Sequence[ChainResult], trips: int) -> float | None:
    """Return the AUC of one case from all its chains; None if unknown."""
    if last_common_trip(chains, trips) < trips:
        return None
    curves = np.array([extended_curve(chain, trips) for chain in chains])
    rows = np.zeros(len(chains), dtype=np.intp)
    auc = float(_mean_by_case(_segments(chains, curves), rows, 1).mean())
    return auc if math.isfinite(auc) else None


def _segments(chains: Sequence[ChainResult], curves: Floats) -> Floats:
    """Return the trapezoids of clip(Q, 0, 1) by trip; their mean is the AUC.

    Trips after a broken chain's last whole trip count as 0. A trapezoid down to the break would
    be worth more on a short suite than on a long one.
    """
    clipped = np.clip(curves, 0, 1)
    segments = (clipped[:, 1:] + clipped[:, :-1]) / 2
    for row, chain in zip(segments, chains, strict=True):
        if chain.outcome in BROKEN:
            row[len(chain.retention) :] = 0
    return segments


def _survival(
    events: Sequence[Event], trips: int, rows: NDArray[np.intp], category: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Return the times at which chains ended, and each case's share usable from then on.

    The share counts the case's chains. In a category with interrupted chains, it is a pseudo-value.
    """
    times = np.array([end.time for end in events])
    ended = np.array([end.cause is not None for end in events], dtype=bool)
    ends = np.unique(times[ended])
    values = _mean_by_case((~ended | (times > ends[:, None])).T.astype(float), rows, len(category))
    for code in set(category[rows[~ended & (times < trips)]].tolist()):
        members = np.flatnonzero(category == code)
        chains = np.flatnonzero(category[rows] == code)
        chains = chains[order_by_time(times[chains], ended[chains])]
        case = np.searchsorted(members, rows[chains])
        weights = 1 / np.bincount(case)[case]
        # The first row weights all cases; each further row leaves out one of them.
        tables = np.vstack([np.ones(len(members)), 1 - np.eye(len(members))])[:, case] * weights
        falls = drops(tables, ended[chains])
        curves = 1 - falls @ (times[chains][:, None] <= ends)
        if len(members) > 1:
            pseudo_values = len(members) * curves[0] - (len(members) - 1) * curves[1:]
            values[members] = pseudo_values + curves[0] - pseudo_values.mean(axis=0)
        else:
            values[members] = curves[0]
    return ends, values


def _area_under(ends: Floats, survival: Floats, trips: int) -> Floats:
    """Return the area under each row of `survival`: the case's usable trips."""
    widths = np.diff(np.append(ends, trips))
    return np.asarray(np.append(ends, trips)[0] + survival @ widths)


def _mean_by_case(values: Floats, rows: NDArray[np.intp], cases: int) -> Floats:
    """Return the mean over the measured repeats of each case; NaN if no repeat was measured."""
    measured = ~np.isnan(values)
    sums, counts = (np.zeros((cases, values.shape[1])) for _ in range(2))
    np.add.at(sums, rows, np.where(measured, values, 0))
    np.add.at(counts, rows, measured)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def _fill_missing(values: Floats, category: NDArray[np.intp]) -> Floats:
    """Fill missing values without changing the means over the present cases.

    A missing case gets the mean of its category, a missing category the mean of the other
    categories. Deviations of present cases are enlarged accordingly, because present cases
    represent the missing ones.
    """
    measured = ~np.isnan(values)
    if measured.all() or not len(values):
        return values
    members = np.eye(category.max() + 1)[:, category]
    counts, present = members.sum(axis=1)[:, None], members @ measured
    means = np.divide(
        members @ np.where(measured, values, 0),
        present,
        out=np.full(present.shape, np.nan),
        where=present > 0,
    )
    measured_categories = (present > 0).sum(axis=0)
    overall = np.divide(
        np.nansum(means, axis=0),
        measured_categories,
        out=np.full(len(measured_categories), np.nan),
        where=measured_categories > 0,
    )
    factors = counts / np.maximum(present, 1) * len(counts) / np.maximum(measured_categories, 1)
    deviations = np.where(measured, values - means[category], 0) * factors[category]
    return np.where(np.isnan(means), overall, means)[category] + deviations
