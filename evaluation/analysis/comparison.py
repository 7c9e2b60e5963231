"""Paired comparison of two runs on their shared cases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from evaluation.analysis.case_values import CaseValues
from evaluation.analysis.covariance import CONFIDENCE, Interval, t_probability, t_quantile
from evaluation.analysis.events import TOLERANCE
from evaluation.analysis.power import POWER
from evaluation.analysis.survival import half_life

# `more_cases` is None if the suite would have to be more than this many times as large.
MAX_TIMES = 100


@dataclass(frozen=True)
class Difference:
    """A result of the first run minus that of the second run, with a paired 95 % interval.

    `interval` is None if there are too few cases. `more_cases` is the number of additional cases
    (with new images and pairs in equal proportions) that would make a difference of this size
    significant with 80 % probability. It is 0 if the difference already is significant, and None
    if no feasible number would be enough.
    """

    estimate: float
    interval: Interval | None
    more_cases: int | None


@dataclass(frozen=True)
class Side:
    """One run on the shared cases. A half-life of None is longer than the suite's trips."""

    usable_trips: float
    half_life: float | None
    auc: float | None


@dataclass(frozen=True)
class Comparison:
    """Two runs on their shared cases.

    `p_ahead` is the probability that the first run has more usable trips; None with too few cases.
    `auc` is None if too many chains were interrupted. `separated` is True if the difference in
    usable trips is significant. `crossed` is set if the run with more usable trips has the shorter
    half-life: "late" if that run is better at the images that last long, "early" if fewer of its
    images end early.
    """

    cases: int
    images: int
    pairs: int
    first: Side
    second: Side
    usable_trips: Difference
    auc: Difference | None
    p_ahead: float | None
    separated: bool
    crossed: Literal["", "early", "late"]


def compare(first: CaseValues, second: CaseValues) -> Comparison:
    """Compare two runs on their shared cases. Raises ValueError without a shared case."""
    shared = sorted(set(first.cases) & set(second.cases))
    if not shared:
        raise ValueError("the two runs have no case in common")
    if first.trips != second.trips:
        raise ValueError(f"one run has {first.trips} trips, the other {second.trips}")
    first, second = first.only(shared), second.only(shared)
    design, trips = first.design, first.trips
    first_side, second_side = _side(first), _side(second)
    first_values, second_values = (
        np.column_stack([run.usable, run.auc]) for run in (first, second)
    )
    by_usable, by_auc = design.mean(first_values - second_values).tolist()
    errors = [None, None]
    if design.enough:
        errors = design.difference_errors(
            first_values, second_values, np.array([trips, 1])
        ).tolist()
    usable = _difference(by_usable, errors[0], design.freedom, len(shared))
    return Comparison(
        cases=len(shared),
        images=design.images,
        pairs=design.pairs,
        first=first_side,
        second=second_side,
        usable_trips=usable,
        auc=None
        if math.isnan(by_auc)
        else _difference(by_auc, errors[1], design.freedom, len(shared)),
        p_ahead=_p_ahead(by_usable, errors[0], design.freedom),
        separated=usable.more_cases == 0,
        crossed=_crossed(first, second, (first_side, second_side)),
    )


def _side(values: CaseValues) -> Side:
    usable, auc = (float(values.design.mean(column)) for column in (values.usable, values.auc))
    lifetime = half_life(values.ends, values.design.mean(values.survival))
    return Side(usable, lifetime, None if math.isnan(auc) else auc)


def _crossed(
    first: CaseValues, second: CaseValues, sides: tuple[Side, Side]
) -> Literal["", "early", "late"]:
    gap = sides[0].usable_trips - sides[1].usable_trips
    half_lives = [math.inf if side.half_life is None else side.half_life for side in sides]
    if (
        abs(gap) <= TOLERANCE
        or half_lives[0] == half_lives[1]
        or (gap > 0) == (half_lives[0] > half_lives[1])
    ):
        return ""
    steps = np.unique([0.0, *first.ends, *second.ends, first.trips])
    ahead = (first.survival_at(steps) - second.survival_at(steps))[:-1] * np.diff(steps)
    early = steps[:-1] < min(half_lives)
    by_part = {"early": ahead[early].sum(), "late": ahead[~early].sum()}
    return "early" if by_part["early"] * gap > by_part["late"] * gap else "late"


def _difference(estimate: float, error: float | None, freedom: int, cases: int) -> Difference:
    if error is None:
        return Difference(estimate, None, None)
    half_width = t_quantile((1 + CONFIDENCE) / 2, freedom) * error
    bounds = Interval(estimate - half_width, estimate + half_width)
    return Difference(estimate, bounds, _more_cases(estimate, error, half_width, cases))


def _more_cases(estimate: float, error: float, half_width: float, cases: int) -> int | None:
    """Return the number of additional cases for `Difference.more_cases`.

    If n cases give a standard error of s, n' cases give s * sqrt(n / n').
    """
    if abs(estimate) <= TOLERANCE:
        return None
    if abs(estimate) > half_width:
        return 0
    normal = NormalDist()
    required_errors = normal.inv_cdf((1 + CONFIDENCE) / 2) + normal.inv_cdf(POWER)
    needed = cases * (required_errors * error / estimate) ** 2
    if needed > MAX_TIMES * cases:
        return None
    return max(1, math.ceil(needed - cases))


def _p_ahead(estimate: float, error: float | None, freedom: int) -> float | None:
    if error is None:
        return None
    if error <= TOLERANCE:
        return 0.5 if abs(estimate) <= TOLERANCE else float(estimate > 0)
    return t_probability(estimate / error, freedom)
