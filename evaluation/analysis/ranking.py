"""Ranking of runs: intervals, shared ranks, rank sets, tiers, probability of first place."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.analysis.case_values import CaseValues
from evaluation.analysis.covariance import (
    CONFIDENCE,
    SEED,
    Design,
    Interval,
    errors_of,
    t_quantile,
)
from evaluation.analysis.events import TOLERANCE, Case, ChainResult
from evaluation.analysis.half_life import Summary, summary_and_values
from evaluation.analysis.survival import Floats
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD

DRAWS = 10_000
#: Draws are compared in portions of this size, which fit into a processor's cache for 100 runs.
DRAWS_AT_ONCE = 250


@dataclass(frozen=True)
class Bounds:
    """95 % intervals of a run's results, for a curve at each point; None with too few cases."""

    half_life: Interval | None = None
    usable_trips: Interval | None = None
    auc: Interval | None = None
    curve: tuple[Interval | None, ...] | None = None

    @classmethod
    def of(cls, values: CaseValues) -> Bounds:
        design, trips = values.design, values.trips
        if not design.enough:
            return cls()
        columns = np.column_stack([values.usable, values.auc, values.curve, values.survival])
        # The scale of usable trips ends at N, all other scales at 1. Q(0) is always 1, so its scale
        # has no range.
        scale_end = np.ones(columns.shape[1])
        scale_end[[0, 2]] = trips, 0
        means = design.mean(columns)
        t = t_quantile((1 + CONFIDENCE) / 2, design.freedom)
        half_width = t * design.standard_errors(columns, scale_end)
        ends = slice(trips + 3, None)
        (usable, auc, *curve) = zip(means.tolist(), half_width.tolist(), strict=True)
        return cls(
            half_life=half_life_interval(values.ends, means[ends], half_width[ends]),
            usable_trips=_within(*usable, least=0.0, most=float(trips)),
            auc=_within(*auc, least=0.0),
            curve=tuple(_within(*pair) for pair in curve[: trips + 1]),
        )


def half_life_interval(ends: Floats, survival: Floats, half_width: Floats) -> Interval:
    """Return the interval of times at which the band around the survival curve contains 0.5.

    The curve falls only at the times `ends`. The band is `survival` plus and minus `half_width`.
    """
    touched = np.flatnonzero(survival - half_width <= 0.5 + TOLERANCE)
    above = np.flatnonzero(survival + half_width >= 0.5 - TOLERANCE)
    # The upper bound is the time at which the whole band falls below 0.5.
    below = above[-1] + 1 if above.size else 0
    return Interval(
        float(ends[touched[0]]) if touched.size else None,
        float(ends[below]) if below < len(ends) else None,
    )


def _within(
    value: float, half_width: float, least: float = -math.inf, most: float = 1.0
) -> Interval | None:
    if not math.isfinite(value + half_width):
        return None
    return Interval(max(least, value - half_width), min(most, value + half_width))


@dataclass(frozen=True)
class Ranks:
    """Ranks of a board's M runs; every list has one entry per run, in the given order.

    `sets` are the possible ranks of each run. The best one is 1 + the number of significantly
    better runs, the worst one M - the number of significantly worse runs. With 95 % probability all
    sets are right. `shared` is the displayed rank: the best rank of the set, but never better than
    the rank of a run with more usable trips. `tiers` are letters. The best run opens tier A. The
    next tier is opened by the first run whose set does not overlap with the set of the run that
    opened the tier before. Exactly equal runs share rank and tier. `p_first` is the probability of
    first place; None with too few cases. `better[i, j]` is True if run i is significantly better
    than run j.
    """

    shared: tuple[int, ...]
    sets: tuple[tuple[int, int], ...]
    tiers: tuple[str, ...]
    p_first: tuple[float | None, ...]
    better: NDArray[np.bool_]


def rank_board(
    design: Design,
    usable: Floats,
    trips: int,
    means: Sequence[float] | None = None,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Ranks:
    """Rank runs by their usable trips.

    `usable` has one row per case and one column per run. `trips` is the suite's number of trips.
    Pass `means` if the usable trips of the runs are not the means of their columns, as in a scope
    with interrupted chains. Raises ValueError if a run lacks a case.
    """
    if np.isnan(usable).any():
        raise ValueError("a run lacks a case: only runs with the same cases can be ranked")
    mean_usable = design.mean(usable) if means is None else np.asarray(means, dtype=float)
    count = len(mean_usable)
    if design.enough and count:
        differences = mean_usable[:, None] - mean_usable
        errors, factor, p_first = _compared(design, usable, trips, mean_usable, draws, seed)
        better = differences > np.maximum(factor * errors, TOLERANCE)
    else:
        better, p_first = np.zeros((count, count), dtype=bool), [None] * count
    low, high = 1 + better.sum(axis=0), count - better.sum(axis=1)
    sets = list(zip(low.tolist(), high.tolist(), strict=True))
    shared, tiers = _ranks_and_tiers(sets, mean_usable.tolist())
    return Ranks(
        shared=shared,
        sets=tuple(sets),
        tiers=tiers,
        p_first=tuple(p_first),
        better=better,
    )


def _ranks_and_tiers(
    sets: Sequence[tuple[int, int]], mean_usable: Sequence[float]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return shared ranks and tiers, given the runs' rank sets and usable trips."""
    shared, tiers = [0] * len(sets), [""] * len(sets)
    rank, opener_high, tier = 0, 0, 0
    for tied in _ties(mean_usable):
        # Equal runs may have different sets, because their errors differ.
        low = min(sets[run][0] for run in tied)
        rank = max(rank, *(sets[run][0] for run in tied))
        if low > opener_high:
            opener_high, tier = max(sets[run][1] for run in tied), tier + 1
        for run in tied:
            shared[run], tiers[run] = rank, _letter(tier)
    return tuple(shared), tuple(tiers)


def _ties(mean_usable: Sequence[float]) -> list[list[int]]:
    """Group equal runs; return the groups from most to fewest usable trips."""
    groups: list[list[int]] = []
    for run in sorted(range(len(mean_usable)), key=lambda run: -mean_usable[run]):
        if groups and mean_usable[groups[-1][-1]] - mean_usable[run] <= TOLERANCE:
            groups[-1].append(run)
        else:
            groups.append([run])
    return groups


def _letter(number: int) -> str:
    """Return the letter of a tier: A for 1, Z for 26, then AA, AB and so on."""
    rest, index = divmod(number - 1, len(ascii_uppercase))
    return (_letter(rest) if rest else "") + ascii_uppercase[index]


def rank_scope(
    cases: Sequence[Case],
    stored: Floats,
    trips: int,
    scope: str,
    means: Sequence[float] | None = None,
) -> Ranks:
    """Rank runs in one scope (part of a suite) from their stored values.

    `cases` are all cases of the suite, in order. `stored` has one column per run, with the result
    of `CaseValues.aligned(cases)`. `means` are the usable trips of the runs' standings in this
    scope. Cases for which no run has a value are left out: the metric does not apply to them.
    """
    missing = np.asarray(np.isnan(stored).all(axis=1))
    rows = [n for n, case in enumerate(cases) if scope in case.scopes and not missing[n]]
    return rank_board(Design([cases[n] for n in rows]), stored[rows], trips, means)


def _compared(
    design: Design, usable: Floats, trips: int, mean_usable: Floats, draws: int, seed: int
) -> tuple[Floats, float, list[float | None]]:
    """Return the standard errors of all differences, the significance factor and P(first)."""
    root = design.covariance_factor(usable, trips)
    # Errors are computed from differences of columns. If they were computed from variances and
    # covariances, rounding errors would be too large for nearly equal runs.
    errors = np.array([errors_of(root - run_column[:, None]) for run_column in root.T])
    drawn = design.draws(root, draws, seed)
    values = mean_usable + drawn
    first = values >= values.max(axis=1, keepdims=True) - TOLERANCE
    p_first = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
    # Equal runs differ only by random draws, so each gets the mean of their probabilities.
    _, alike = np.unique(np.round(usable, 9), axis=1, return_inverse=True)
    p_first = (np.bincount(alike, p_first) / np.bincount(alike))[alike]
    return errors, significance_factor(drawn, errors, CONFIDENCE), p_first.tolist()


def significance_factor(drawn: Floats, errors: Floats, confidence: float) -> float:
    """Return the number of standard errors from which a difference of two runs is significant.

    It holds for all pairs of runs simultaneously. For each draw (row of `drawn`), the largest
    difference between two columns is found, in units of its error; the result is the quantile of
    these maxima at `confidence`. Columns that never differ count as equal.
    """
    scale = np.divide(1, errors, out=np.zeros_like(errors), where=errors > TOLERANCE)
    largest = np.zeros(len(drawn))
    for start in range(0, len(drawn), DRAWS_AT_ONCE):
        by_run = np.ascontiguousarray(drawn[start : start + DRAWS_AT_ONCE].T)
        most = largest[start : start + DRAWS_AT_ONCE]
        for following, run in enumerate(by_run[:-1], start=1):
            gaps = np.abs(by_run[following:] - run) * scale[following - 1, following:, None]
            np.maximum(most, gaps.max(axis=0), out=most)
    return float(np.quantile(largest, confidence))


@dataclass(frozen=True)
class Placing:
    """One run on the board; `rank`, `rank_set` and `p_first` are None if the run is incomplete."""

    run: str
    complete: bool
    summary: Summary
    bounds: Bounds
    rank: int | None
    rank_set: tuple[int, int] | None
    p_first: float | None


def board(
    runs: Mapping[str, Sequence[ChainResult]],
    trips: int,
    threshold: float = DEFAULT_THRESHOLD,
    *,
    keys: Collection[tuple[str, str, int]] | None = None,
) -> list[Placing]:
    """Return all runs of a suite in the board's order: ranked runs, then incomplete ones.

    `keys` are the (image, pair, repeat) triples of the suite to which the metric applies; by
    default, all triples that any run has played. A run that lacks one of them is not ranked.
    """
    if keys is not None:
        requested = set(keys)
        runs = {name: [c for c in chains if c.key in requested] for name, chains in runs.items()}
        runs = {name: chains for name, chains in runs.items() if chains}
    played = {name: {c.key for c in chains if c.played} for name, chains in runs.items()}
    required = set(keys) if keys is not None else set().union(*played.values())
    complete = {name for name in runs if required and required <= played[name]}
    results = {name: summary_and_values(chains, trips, threshold) for name, chains in runs.items()}
    order = sorted(runs, key=lambda name: (name not in complete, board_key(results[name][0]), name))
    ranked = [name for name in order if name in complete]
    ranks = {}
    if ranked:
        design = results[ranked[0]][1].design
        table = np.column_stack([results[name][1].usable for name in ranked])
        on_board = rank_board(design, table, trips)
        ranks = dict(
            zip(
                ranked,
                zip(on_board.shared, on_board.sets, on_board.p_first, strict=True),
                strict=True,
            )
        )
    return [
        Placing(
            name,
            name in complete,
            results[name][0],
            Bounds.of(results[name][1]),
            *ranks.get(name, (None, None, None)),
        )
        for name in order
    ]


def board_key(summary: Any) -> float:
    """Return the sort key of a board: most usable trips first, unmeasured runs last.

    `summary` is a Summary or any stored row with `usable_trips`.
    """
    return math.inf if summary.usable_trips is None else -summary.usable_trips
