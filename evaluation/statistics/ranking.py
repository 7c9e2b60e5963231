"""The board: intervals, shared ranks, rank intervals, and how sure the first place is."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.statistics.half_life import TOLERANCE, ChainResult, Floats, Summary, summarise
from evaluation.statistics.levels import DEFAULT_LEVEL
from evaluation.statistics.resampling import RESAMPLES, SEED, Replicates, replicate

CONFIDENCE = 0.95
# With five pictures even a unanimous verdict has p = 2 / 2**5 = 6 %: nothing
# can be told apart at 5 %, and a percentile interval would promise too much.
MIN_PICTURES = 6


@dataclass(frozen=True)
class Interval:
    """A 95 % interval. A bound of a half-life is None where it lies beyond N ("> N")."""

    low: float | None
    high: float | None


@dataclass(frozen=True)
class Bounds:
    """Intervals of a run's numbers, pointwise for the curve; None where pictures are too few."""

    half_life: Interval | None = None
    usable_trips: Interval | None = None
    auc: Interval | None = None
    curve: tuple[Interval | None, ...] | None = None

    @classmethod
    def of(cls, replicates: Replicates) -> Bounds:
        return cls(
            half_life=interval(replicates.half_life),
            usable_trips=interval(replicates.usable_trips),
            auc=interval(replicates.auc),
            curve=tuple(interval(values) for values in replicates.curve.T),
        )


@dataclass(frozen=True)
class Placing:
    """One run on the board; `rank` and what follows are None for an unfinished run."""

    run: str
    complete: bool
    summary: Summary
    bounds: Bounds
    rank: int | None
    rank_interval: tuple[int, int] | None
    p_first: float | None


def board(
    runs: Mapping[str, Sequence[ChainResult]],
    trips: int,
    level: float = DEFAULT_LEVEL,
    *,
    keys: Collection[tuple[str, str, int]] | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[Placing]:
    """All runs of a suite in the board's order: ranked ones first, then the unfinished.

    `keys` = every (picture, pair, repeat) the suite asks for; by default, what
    any of the runs has. A run that lacks one is not ranked.
    """
    if not runs:
        return []
    if keys is not None:
        asked = set(keys)
        runs = {name: [c for c in chains if c.key in asked] for name, chains in runs.items()}
        runs = {name: chains for name, chains in runs.items() if chains}
    played = {name: {c.key for c in chains if c.played} for name, chains in runs.items()}
    wanted = set(keys) if keys is not None else set().union(*played.values())
    complete = {name for name in runs if wanted and wanted <= played[name]}
    summaries = {name: summarise(chains, trips, level) for name, chains in runs.items()}
    replicates = replicate(runs, trips, level, resamples=resamples, seed=seed)
    order = sorted(runs, key=lambda name: (name not in complete, board_key(summaries[name]), name))
    ranked = [name for name in order if name in complete]
    enough = len({picture for picture, _, _ in wanted}) >= MIN_PICTURES
    ranks = Ranks([replicates[name] for name in ranked], enough=enough)
    placings = []
    for name in order:
        place = ranked.index(name) if name in complete else None
        pictures = {picture for picture, _, _ in played[name]}
        bounds = Bounds.of(replicates[name]) if len(pictures) >= MIN_PICTURES else Bounds()
        placings.append(
            Placing(
                run=name,
                complete=name in complete,
                summary=summaries[name],
                bounds=bounds,
                rank=None if place is None else ranks.shared[place],
                rank_interval=None if place is None else ranks.intervals[place],
                p_first=None if place is None else ranks.p_first[place],
            )
        )
    return placings


def board_key(summary: Any) -> tuple[float, float]:
    """Sorts a board: longest half-life first, unreached before all, ties by usable trips.

    Takes a Summary, or anything stored with its `half_life` and `usable_trips`.
    """
    half_life = math.inf if summary.half_life is None else summary.half_life
    if summary.usable_trips is None:
        return math.inf, math.inf
    return -half_life, -summary.usable_trips


class Ranks:
    """Ranks of runs that are given in the board's order, from their shared resamples."""

    def __init__(self, replicates: Sequence[Replicates], *, enough: bool = True) -> None:
        self.ahead = _ahead(replicates)
        self.lead = self.ahead.mean(axis=2) if len(replicates) else self.ahead
        self.enough = enough
        places = self.ahead.sum(axis=0) + 1.0  # run x resample; ties share the better place
        count = len(replicates)
        spread = [(int(_low(own)), int(_high(own))) for own in places]
        self.intervals = spread if enough else [(1, count)] * count
        first = places == 1
        shares = first / np.maximum(first.sum(axis=0), 1)
        self.p_first = [float(own.mean()) for own in shares]

    @cached_property
    def shared(self) -> list[int]:
        """Who cannot be told from the best shares rank 1; then the best of the rest, and on."""
        ranks = [0] * len(self.p_first)
        left = list(range(len(ranks)))
        while left:
            best, rank = left[0], len(ranks) - len(left) + 1
            group = [run for run in left if not self.separated(best, run)]
            for run in group:
                ranks[run] = rank
            left = [run for run in left if run not in group]
        return ranks

    def separated(self, better: int, worse: int) -> bool:
        """Is `better` ahead in all but 2.5 % of the resamples?"""
        return self.enough and bool(self.lead[better, worse] >= (1 + CONFIDENCE) / 2)


def interval(values: Floats) -> Interval | None:
    """The percentile interval; None where no resample gave a value."""
    values = values[~np.isnan(values)]
    if not values.size:
        return None
    low, high = _low(values), _high(values)
    return Interval(*(bound if math.isfinite(bound) else None for bound in (low, high)))


# Without interpolation: there is nothing between a trip and "not reached".
def _low(values: Floats) -> float:
    return float(np.quantile(values, (1 - CONFIDENCE) / 2, method="lower"))


def _high(values: Floats) -> float:
    return float(np.quantile(values, (1 + CONFIDENCE) / 2, method="higher"))


def _ahead(replicates: Sequence[Replicates]) -> NDArray[np.bool_]:
    """[i, j, b]: is run i strictly ahead of run j in resample b?"""
    if not replicates:
        return np.zeros((0, 0, 0), dtype=bool)
    half_life = np.array([r.half_life for r in replicates])
    usable = np.array([r.usable_trips for r in replicates])
    ahead = np.empty((len(usable), *usable.shape), dtype=bool)
    for run in range(len(usable)):
        with np.errstate(invalid="ignore"):
            longer = half_life[run] - half_life
        tied = (half_life[run] == half_life) | (np.abs(longer) <= TOLERANCE)
        more = usable[run] > usable + TOLERANCE
        ahead[run] = np.where(tied, more, half_life[run] > half_life)
    return ahead
