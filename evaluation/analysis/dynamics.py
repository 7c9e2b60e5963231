"""Dynamics of chains: whether the images settle, wander or drift.

One chain can show that an editor does not settle, but never that it always settles. The contraction
factor (the typical ratio of a step to the step before) is shown with the retention of the last
image, because an editor that posterises settles perfectly, but on a wrong image.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

IDEMPOTENT, CONTRACTING, WANDERING, DRIFTING, UNDETERMINED = REGIMES = (
    "idempotent",
    "contracting",
    "wandering",
    "drifting",
    "undetermined",
)
MIN_TRIPS = 5  # fewer steps show no trend
IDEMPOTENT_BELOW = 0.3  # with a smaller contraction factor, nearly all change is in the first trip
STEADY = (0.95, 1.05)  # with a contraction factor in this range, steps neither shrink nor grow
STEADY_BOUNDS = (0.9, 1.1)  # the interval of a steady factor must be inside this range
MIN_DRIFT_EFFICIENCY = 2 / 3  # a pure drift has a path efficiency of 1
WANDER_FACTOR = 1.5  # up to this multiple of a random walk's path efficiency, 1 / sqrt(N)


@dataclass(frozen=True)
class Dynamics:
    """The dynamics of one chain: contraction factor with 95 % interval, path efficiency, regime.

    `contraction` is None with fewer than two steps, and 0 if nothing changed after the first step.
    `path_efficiency` is the distance from the source to the last image, divided by the sum of all
    steps; None if no step changed the image.
    """

    contraction: float | None
    contraction_low: float | None
    contraction_high: float | None
    path_efficiency: float | None
    regime: str
    limit_retention: float | None


@dataclass(frozen=True)
class DynamicsSummary:
    """All chains of a run: medians, and the number of chains by regime."""

    chains: int
    contraction: float | None
    path_efficiency: float | None
    limit_retention: float | None
    regimes: dict[str, int]


def dynamics(
    steps: Sequence[float], distance: float, limit_retention: float | None = None
) -> Dynamics:
    """Return the dynamics of one chain.

    `steps` = s(1..N) with s(n) = RMSE(X(n-1), Xn), `distance` = RMSE(X0, XN) and
    `limit_retention` = Q(N). Raises ValueError if a number is negative or not finite.
    """
    if not all(math.isfinite(s) and s >= 0 for s in (*steps, distance)):
        raise ValueError("steps and distance must be finite and not negative")
    path = sum(steps)
    efficiency = min(1.0, distance / path) if path else None
    factor, low, high = _contraction(tuple(steps))
    return Dynamics(
        contraction=factor,
        contraction_low=low,
        contraction_high=high,
        path_efficiency=efficiency,
        regime=_regime(steps, factor, low, high, efficiency),
        limit_retention=limit_retention,
    )


def summarise_dynamics(chains: Sequence[Dynamics]) -> DynamicsSummary:
    """Return medians over chains and counts by regime."""
    counts = Counter(d.regime for d in chains)
    return DynamicsSummary(
        chains=len(chains),
        contraction=_median([d.contraction for d in chains]),
        path_efficiency=_median([d.path_efficiency for d in chains]),
        limit_retention=_median([d.limit_retention for d in chains]),
        regimes={regime: counts[regime] for regime in REGIMES},
    )


#: Larger slopes of ln s(n) are clipped; steps of real images never grow so fast.
MAX_SLOPE = 100.0


# Cached, because the result is needed once for every metric and threshold.
@lru_cache(maxsize=4096)
def _contraction(steps: tuple[float, ...]) -> tuple[float | None, float | None, float | None]:
    """Return the contraction factor and its interval: exp of the Theil-Sen slope of ln s(n).

    Steps of 0 are left out.
    """
    from scipy.stats import theilslopes

    if len(steps) < 2:
        return None, None, None
    numbers = np.flatnonzero(steps) + 1.0
    if numbers.size < 2:
        # No change after the first step is the strongest contraction.
        return (0.0, None, None) if not any(steps[1:]) else (None, None, None)
    slope, _, low, high = theilslopes(np.log([s for s in steps if s]), numbers, alpha=0.95)
    # Clipped, because a contributed bundle may state any steps, and exp would overflow.
    factor, lower, upper = (math.exp(min(value, MAX_SLOPE)) for value in (slope, low, high))
    return (factor, None, None) if numbers.size < MIN_TRIPS else (factor, lower, upper)


def _regime(
    steps: Sequence[float],
    factor: float | None,
    low: float | None,
    high: float | None,
    efficiency: float | None,
) -> str:
    if len(steps) < MIN_TRIPS or factor is None:
        return UNDETERMINED
    # The right side is the length of all later steps if each is 0.3 of the step before. The slope
    # alone is not enough: a jump followed by a faint, steady flicker would count as a drift.
    if sum(steps[1:]) <= steps[0] * IDEMPOTENT_BELOW / (1 - IDEMPOTENT_BELOW):
        return IDEMPOTENT
    if low is None or high is None or efficiency is None:
        return UNDETERMINED
    if factor <= STEADY[0]:
        return CONTRACTING if high < 1 else UNDETERMINED
    if factor < STEADY[1] and STEADY_BOUNDS[0] <= low and high <= STEADY_BOUNDS[1]:
        if efficiency <= WANDER_FACTOR / math.sqrt(len(steps)):
            return WANDERING
        if efficiency >= MIN_DRIFT_EFFICIENCY:
            return DRIFTING
    return UNDETERMINED


def _median(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return float(np.median(present)) if present else None
