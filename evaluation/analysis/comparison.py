"""Paired comparison of two runs, on the cases both have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from evaluation.analysis.case_values import CaseValues
from evaluation.analysis.covariance import CONFIDENCE, Interval, t_probability, t_quantile
from evaluation.analysis.events import TOLERANCE
from evaluation.analysis.half_life import half_life
from evaluation.analysis.power import POWER

# Beyond this many times the suite, the runs are reported as indistinguishable.
MOST_TIMES = 100


@dataclass(frozen=True)
class Difference:
    """First minus second, with its paired 95 % interval; None if cases are too few.

    `more_cases` = the number of further cases of the same mix, with new images and pairs,
    that would show a difference of this size with 80 %; 0 if it already shows, None if no
    feasible number would.
    """

    estimate: float
    interval: Interval | None
    more_cases: int | None


@dataclass(frozen=True)
class Side:
    """One of the two, on the shared cases; a half-life of None is beyond the suite."""

    usable_trips: float
    half_life: float | None
    auc: float | None


@dataclass(frozen=True)
class Comparison:
    """Two runs on their shared cases.

    In the difference of half-lives one that is longer than the suite counts as N, so the true
    difference is at least as large; its interval is that of the usable trips, transformed
    around the mean of the two. `p_ahead` = the probability that the first is usable for longer,
    None if cases are too few. `auc` is None if too many chains were lost.
    """

    cases: int
    images: int
    pairs: int
    first: Side
    second: Side
    half_life: Difference
    usable_trips: Difference
    auc: Difference | None
    p_ahead: float | None
    separated: bool


def compare(first: CaseValues, second: CaseValues) -> Comparison:
    """Return paired differences of two runs. Raises ValueError without a shared case."""
    shared = sorted(set(first.cases) & set(second.cases))
    if not shared:
        raise ValueError("the two runs have no case in common")
    if first.trips != second.trips:
        raise ValueError(f"one run has {first.trips} trips, the other {second.trips}")
    first, second = first.only(shared), second.only(shared)
    design, trips = first.design, first.trips
    first_side, second_side = _side(first), _side(second)
    gaps = np.column_stack([first.usable - second.usable, first.auc - second.auc])
    by_usable, by_auc = design.mean(gaps).tolist()
    errors = design.standard_errors(gaps).tolist() if design.enough else [None, None]
    usable = _difference(by_usable, errors[0], design.freedom, len(shared))
    return Comparison(
        cases=len(shared),
        images=design.images,
        pairs=design.pairs,
        first=first_side,
        second=second_side,
        half_life=_of_half_life(
            usable, (first_side.usable_trips + second_side.usable_trips) / 2, trips
        ),
        usable_trips=usable,
        auc=None
        if math.isnan(by_auc)
        else _difference(by_auc, errors[1], design.freedom, len(shared)),
        p_ahead=_p_ahead(by_usable, errors[0], design.freedom),
        separated=usable.more_cases == 0,
    )


def _side(values: CaseValues) -> Side:
    usable, auc = (float(values.design.mean(column)) for column in (values.usable, values.auc))
    return Side(usable, half_life(usable, values.trips), None if math.isnan(auc) else auc)


def _difference(estimate: float, error: float | None, freedom: int, cases: int) -> Difference:
    if error is None:
        return Difference(estimate, None, None)
    reach = t_quantile((1 + CONFIDENCE) / 2, freedom) * error
    bounds = Interval(estimate - reach, estimate + reach)
    return Difference(estimate, bounds, _more_cases(estimate, error, reach, cases))


def _more_cases(estimate: float, error: float, reach: float, cases: int) -> int | None:
    """Return the further cases needed, by the square-root law.

    n cases give a standard error of s, n' give s * sqrt(n / n').
    """
    if abs(estimate) <= TOLERANCE:
        return None
    if abs(estimate) > reach:
        return 0
    normal = NormalDist()
    wanted = normal.inv_cdf((1 + CONFIDENCE) / 2) + normal.inv_cdf(POWER)
    needed = cases * (wanted * error / estimate) ** 2
    if needed > MOST_TIMES * cases:
        return None
    return max(1, math.ceil(needed - cases))


def _of_half_life(usable: Difference, middle: float, trips: int) -> Difference:
    def transformed(apart: float) -> float:
        longer, shorter = (
            half_life(min(max(middle + side, 0.0), float(trips)), trips)
            for side in (apart / 2, -apart / 2)
        )
        return (trips if longer is None else longer) - (trips if shorter is None else shorter)

    bounds = usable.interval
    return Difference(
        transformed(usable.estimate),
        None
        if bounds is None or bounds.low is None or bounds.high is None
        else Interval(transformed(bounds.low), transformed(bounds.high)),
        usable.more_cases,
    )


def _p_ahead(estimate: float, error: float | None, freedom: int) -> float | None:
    if error is None:
        return None
    if error <= TOLERANCE:
        return 0.5 if abs(estimate) <= TOLERANCE else float(estimate > 0)
    return t_probability(estimate / error, freedom)
