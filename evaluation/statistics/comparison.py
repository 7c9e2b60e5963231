"""Two runs side by side, on the cases both have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from evaluation.statistics.half_life import ChainResult, Floats, Summary, summarise
from evaluation.statistics.levels import DEFAULT_LEVEL
from evaluation.statistics.ranking import (
    CONFIDENCE,
    MIN_PICTURES,
    Interval,
    Ranks,
    board_key,
    interval,
)
from evaluation.statistics.resampling import RESAMPLES, SEED, replicate

POWER = 0.8
# Beyond this many times the suite, "equal for all we can tell" is the honest answer.
MOST_TIMES = 100


@dataclass(frozen=True)
class Difference:
    """First minus second, with its paired 95 % interval.

    `more_cases` = how many more cases of the same mix would show a difference of
    this size in four tries of five; 0 where it already shows, None where no number
    of cases in reach would do.
    """

    estimate: float
    interval: Interval | None
    more_cases: int | None


@dataclass(frozen=True)
class Comparison:
    """Two runs on their shared cases.

    In the difference of half-lives one that was not reached counts as N, so the
    true difference is at least as large. `p_ahead` = share of resamples in which the
    first run stands before the second by the board's order, ties halved. `auc` is
    None where too much was lost to tell.
    """

    cases: int
    pictures: int
    first: Summary
    second: Summary
    half_life: Difference
    usable_trips: Difference
    auc: Difference | None
    p_ahead: float
    separated: bool


def compare(
    first: Sequence[ChainResult],
    second: Sequence[ChainResult],
    trips: int,
    level: float = DEFAULT_LEVEL,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Comparison:
    """Paired differences of two runs; ValueError where they share no case."""
    shared = {c.key for c in first if c.played} & {c.key for c in second if c.played}
    if not shared:
        raise ValueError("the two runs have no case in common")
    runs = {
        "first": [chain for chain in first if chain.key in shared],
        "second": [chain for chain in second if chain.key in shared],
    }
    one, two = (summarise(chains, trips, level) for chains in runs.values())
    pictures = len({picture for picture, _, _ in shared})
    drawn = replicate(runs, trips, level, resamples=resamples, seed=seed)
    a, b = drawn["first"], drawn["second"]
    ranks = Ranks([a, b], enough=pictures >= MIN_PICTURES)
    leads = board_key(one) <= board_key(two)

    def difference(estimate: float, values: Floats) -> Difference:
        bounds = interval(values) if pictures >= MIN_PICTURES else None
        return Difference(estimate, bounds, _more_cases(estimate, values, bounds, one.cases))

    return Comparison(
        cases=one.cases,
        pictures=pictures,
        first=one,
        second=two,
        half_life=difference(
            _reached(one, trips) - _reached(two, trips),
            np.minimum(a.half_life, trips) - np.minimum(b.half_life, trips),
        ),
        usable_trips=difference(
            (one.usable_trips or 0.0) - (two.usable_trips or 0.0), a.usable_trips - b.usable_trips
        ),
        auc=None
        if one.auc is None or two.auc is None
        else difference(one.auc - two.auc, a.auc - b.auc),
        p_ahead=float((1 + ranks.lead[0, 1] - ranks.lead[1, 0]) / 2),
        separated=ranks.separated(0, 1) if leads else ranks.separated(1, 0),
    )


def _reached(summary: Summary, trips: int) -> float:
    return float(trips) if summary.half_life is None else summary.half_life


def _more_cases(estimate: float, values: Floats, bounds: Interval | None, cases: int) -> int | None:
    """By the square-root law: n cases give a standard error of s, n' give s * sqrt(n / n')."""
    if bounds is None or bounds.low is None or bounds.high is None or not estimate:
        return None
    if bounds.low > 0 or bounds.high < 0:
        return 0
    normal = NormalDist()
    reach = normal.inv_cdf((1 + CONFIDENCE) / 2) + normal.inv_cdf(POWER)
    needed = cases * (reach * float(np.nanstd(values)) / estimate) ** 2
    if needed > MOST_TIMES * cases:
        return None
    return max(1, math.ceil(needed - cases))
