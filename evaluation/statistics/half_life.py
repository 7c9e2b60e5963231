"""Retention curves in; event times, half-life, usable trips and AUC out.

How cases are weighed. A suite's number of cases per category is an accident of
curation, so a *stratum* is a category within a picture kind, and every number
of a run is the mean over the categories of a kind, then over the kinds. Inside
a stratum each case weighs the same, and a case's repeats share its weight.
Survival follows the same rule: one Kaplan-Meier curve per stratum, then the
mean of the curves; the half-life is the median of that mean curve and the
usable trips are the area under it. (One weighted Kaplan-Meier over all cases
would give the same numbers as long as nothing is lost. With lost chains it
would let a loss in one stratum shift weight to the others, so that adding a
censored case could lower survival.)
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.statistics.levels import DEFAULT_LEVEL

METHOD_VERSION = "1"
COMPLETED, LOST = "completed", "lost"
# The model's own doing: the chain ends, and so does the picture's use.
BROKEN = ("refused", "blank", "failed")
OUTCOMES = (COMPLETED, *BROKEN, LOST)
EVENTS = ("crossed", "change_not_seen", *BROKEN)
# Kaplan-Meier multiplies fractions: 3/4 x 2/3 must still count as one half.
TOLERANCE = 1e-9

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ChainResult:
    """One chain scored by one metric: Q(1..n) of the trips there are, and how it ended.

    `outcome` other than "completed" means that trip len(retention) + 1 did not
    come back: "refused", "blank" and "failed" are the model's doing, "lost" is
    ours. `change_seen` and `reframed` go by trip; None = not judged. The
    forward half of a trip that never came back may still be judged.
    """

    picture: str
    pair: str
    category: str
    kind: str
    repeat: int
    retention: tuple[float, ...]
    outcome: str = COMPLETED
    change_seen: tuple[bool | None, ...] = ()
    reframed: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ValueError(f"{self.case}: unknown outcome {self.outcome!r}")
        if not all(math.isfinite(q) and q <= 1 + TOLERANCE for q in self.retention):
            raise ValueError(f"{self.case}: retention must be finite and at most 1")
        if max(len(self.change_seen), len(self.reframed)) > len(self.retention) + 1:
            raise ValueError(f"{self.case}: flags of trips that were never played")

    @property
    def case(self) -> str:
        return f"{self.picture}--{self.pair}"

    @property
    def stratum(self) -> tuple[str, str]:
        return self.kind, self.category

    @property
    def key(self) -> tuple[str, str, int]:
        return self.picture, self.pair, self.repeat

    @property
    def played(self) -> bool:
        """False for a chain that we lost before its first trip: it says nothing."""
        return self.outcome != LOST or bool(self.retention)


@dataclass(frozen=True)
class Event:
    """When a chain stopped being usable, and by what; censored where `kind` is None."""

    time: float
    kind: str | None
    recovered: bool = False


@dataclass(frozen=True)
class Summary:
    """What a set of chains says at one level; ready for JSON: no NaN, no infinity.

    `half_life` None = not reached within `trips` ("> N"). `usable_trips` None =
    nothing was measured. `curve` = mean retention and `survival` = share of cases
    still usable, both at n = 0..N. `refused`, `reframed`, `recovered`, `lost` and
    `change_not_seen` count the chains where it happened at any trip, `outcomes` how
    chains ended within `trips`, `events` the chains whose first event was of that
    kind. `change_seen` is the share of judged trips on which the change was seen.
    """

    trips: int
    level: float
    cases: int
    chains: int
    half_life: float | None
    usable_trips: float | None
    auc: float | None
    curve: tuple[float | None, ...]
    survival: tuple[float | None, ...]
    events: dict[str, int]
    outcomes: dict[str, int]
    censored: int
    lost: int
    refused: int
    reframed: int
    recovered: int
    change_not_seen: int
    change_seen: float | None


def event(chain: ChainResult, trips: int, level: float) -> Event:
    """The first passage of one chain, looking at its first `trips` trips only."""
    before = 1.0
    for number in range(1, trips + 1):
        if chain.change_seen[number - 1 : number] == (False,):
            return Event(float(number - 1), "change_not_seen")
        if number > len(chain.retention):
            return Event(float(number - 1), None if chain.outcome == LOST else chain.outcome)
        after = chain.retention[number - 1]
        if after <= level:
            time = number - 1 + (before - level) / (before - after)
            later = chain.retention[number:trips]
            return Event(time, "crossed", recovered=any(q > level for q in later))
        before = after
    return Event(float(trips), None)


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


def area(curve: Floats) -> Floats:
    """Trapezoid of clip(Q, 0, 1) over n = 0..N, divided by N; curves along the last axis."""
    return np.trapezoid(np.clip(curve, 0, 1), axis=-1) / (curve.shape[-1] - 1)


def check(chains: Sequence[ChainResult], trips: int) -> None:
    """Raise ValueError for data no number should be made of."""
    if not chains:
        raise ValueError("no chains")
    if trips < 1:
        raise ValueError("a suite has at least one trip")
    twice = [key for key, count in Counter(chain.key for chain in chains).items() if count > 1]
    if twice:
        raise ValueError(f"the same chain twice: {twice[0]} (and {len(twice) - 1} more)")
    for chain in chains:
        if chain.outcome == COMPLETED and len(chain.retention) < trips:
            raise ValueError(
                f"{chain.case}: completed, but {len(chain.retention)} of {trips} trips"
            )


def summarise(chains: Sequence[ChainResult], trips: int, level: float = DEFAULT_LEVEL) -> Summary:
    """Half-life, usable trips, AUC, mean curve and counts of these chains."""
    check(chains, trips)
    events = {chain.key: event(chain, trips, level) for chain in chains}
    strata = by_stratum(chain for chain in chains if chain.played)
    grid, survival = _mean_survival(strata, events, trips)
    curve = mean_curve(strata, trips)
    clipped = mean_curve(strata, trips, clip=True)
    auc = float(area(clipped))
    seen = [flag for c in chains for flag in c.change_seen[:trips] if flag is not None]
    kinds = Counter(e.kind for e in events.values())
    ends = Counter(c.outcome if len(c.retention) < trips else COMPLETED for c in chains)
    at_trips = survival[np.searchsorted(grid, np.arange(trips + 1), side="right") - 1]
    return Summary(
        trips=trips,
        level=level,
        cases=len({chain.case for chain in chains}),
        chains=len(chains),
        half_life=_median(grid, survival) if strata else None,
        usable_trips=float(np.diff(grid, append=trips) @ survival) if strata else None,
        auc=None if math.isnan(auc) else auc,
        curve=tuple(None if math.isnan(q) else float(q) for q in curve),
        survival=tuple(float(s) if strata else None for s in at_trips),
        events={kind: kinds[kind] for kind in EVENTS},
        outcomes={outcome: ends[outcome] for outcome in OUTCOMES},
        censored=kinds[None],
        lost=ends[LOST],
        refused=ends["refused"],
        reframed=sum(any(chain.reframed[:trips]) for chain in chains),
        recovered=sum(e.recovered for e in events.values()),
        change_not_seen=sum(False in chain.change_seen[:trips] for chain in chains),
        change_seen=sum(seen) / len(seen) if seen else None,
    )


def survival_steps(
    chains: Sequence[ChainResult], trips: int, level: float = DEFAULT_LEVEL
) -> tuple[list[float], list[float]]:
    """The whole survival curve for drawing: its times, and the share that is usable from each on."""
    events = {chain.key: event(chain, trips, level) for chain in chains}
    grid, survival = _mean_survival(by_stratum(c for c in chains if c.played), events, trips)
    return [*grid.tolist(), float(trips)], [*survival.tolist(), float(survival[-1])]


def shown_half_life(half_life: float | None, trips: int) -> str:
    """As people read it: "7.3", or "> 20" where it was not reached."""
    return f"> {trips}" if half_life is None else f"{half_life:.1f}"


def by_stratum(
    chains: Iterable[ChainResult],
) -> Mapping[tuple[str, str], list[tuple[ChainResult, int]]]:
    """Chains by (kind, category), each with a whole-number weight.

    The weights give every case of a stratum the same total, also where an
    unfinished run has more repeats of one case than of another.
    """
    strata: dict[tuple[str, str], list[ChainResult]] = defaultdict(list)
    for chain in chains:
        strata[chain.stratum].append(chain)
    weighed = {}
    for stratum, members in sorted(strata.items()):
        repeats = Counter(chain.case for chain in members)
        common = math.lcm(*repeats.values())
        weighed[stratum] = [(chain, common // repeats[chain.case]) for chain in members]
    return weighed


def stratum_weights(strata: Iterable[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Equal weight per category within its kind, and per kind; they sum to 1."""
    strata = list(strata)
    categories = Counter(kind for kind, _ in strata)
    return {(kind, c): 1 / len(categories) / categories[kind] for kind, c in strata}


def mean_curve(
    strata: Mapping[tuple[str, str], list[tuple[ChainResult, int]]], trips: int, clip: bool = False
) -> Floats:
    """Mean retention at n = 0..N; a lost chain leaves its weight to the rest of its stratum."""
    means = {}
    for stratum, members in strata.items():
        values = np.array([carried(chain, trips) for chain, _ in members])
        there = np.array([[weight] for _, weight in members]) * ~np.isnan(values)
        if clip:
            values = np.clip(values, 0, 1)
        total = there.sum(axis=0)
        sums = (there * np.nan_to_num(values)).sum(axis=0)
        means[stratum] = np.divide(sums, total, out=np.full(trips + 1, np.nan), where=total > 0)
    curve = np.full(trips + 1, np.nan)
    for number in range(trips + 1):
        weights = stratum_weights(s for s, mean in means.items() if not np.isnan(mean[number]))
        if weights:
            curve[number] = sum(w * means[s][number] for s, w in weights.items())
    return curve


def product_limit(weights: Floats, ended: NDArray[np.bool_]) -> Floats:
    """Kaplan-Meier survival after each chain, one row per set of weights.

    Chains lie in order of time, those that ended before those that were censored
    at the same time. Whole tables of resamples go through here, which libraries
    take one curve at a time; and scipy's weighs 60 MB in every web process.
    """
    at_risk = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    hazard = np.where(ended, weights, 0.0)
    np.divide(hazard, at_risk, out=hazard, where=at_risk > 0)
    return np.cumprod(1 - hazard, axis=1)


def _mean_survival(
    strata: Mapping[tuple[str, str], list[tuple[ChainResult, int]]],
    events: Mapping[tuple[str, str, int], Event],
    trips: int,
) -> tuple[Floats, Floats]:
    """The steps of the mean Kaplan-Meier curve: times from 0, and survival from each on."""
    grid = np.unique([0.0, *(e.time for e in events.values() if e.kind)])
    survival = np.zeros_like(grid)
    for stratum, share in stratum_weights(strata).items():
        rows = sorted(
            (e.time, e.kind is None, weight)
            for e, weight in ((events[chain.key], weight) for chain, weight in strata[stratum])
        )
        times, censored, weights = (np.array(column) for column in zip(*rows, strict=True))
        curve = np.append(1.0, product_limit(weights[None], ~censored)[0])
        survival += share * curve[np.searchsorted(times, grid, side="right")]
    return grid, survival


def _median(grid: Floats, survival: Floats) -> float | None:
    reached = np.flatnonzero(survival <= 0.5 + TOLERANCE)
    return float(grid[reached[0]]) if reached.size else None
