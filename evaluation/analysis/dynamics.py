"""Dynamics of chains (settling, wandering, drifting) and shapes of curves.

One orbit can refute a contraction, never prove it. The retention of the limit is given beside
the contraction factor, since a posteriser settles perfectly on a wrong picture.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evaluation.analysis.survival import Floats

IDEMPOTENT, CONTRACTING, WANDERING, DRIFTING, UNDETERMINED = REGIMES = (
    "idempotent",
    "contracting",
    "wandering",
    "drifting",
    "undetermined",
)
MIN_TRIPS = 5  # fewer steps show no trend
AT_ONCE = 0.3  # a contraction factor below this: the first trip does it all
STEADY = (0.95, 1.05)  # a contraction factor in between: steps neither shrink nor grow
SURELY = (0.9, 1.1)  # the range that must contain its interval for a finding
STRAIGHT = 2 / 3  # path efficiency of a drift; a pure one has 1
CROOKED = 1.5  # times 1 / sqrt(N), the path efficiency of a random walk

LINEAR, EXPONENTIAL, PLATEAU = SHAPES = "linear", "exponential", "plateau"
SURE = 0.9
MIN_CURVE_TRIPS = 6  # the corrected criterion needs more points than a plateau has parameters
# The precision of retention, and so the least error of a fit.
NOISE = 1e-3
ALIKE = 1e-6
RATES = np.geomspace(1e-5, 10, 48)
# The least floor of a plateau. It separates the shapes: with a floor of 0 a plateau is an
# exponential, and no criterion could prefer the simpler one for sure.
LEAST_FLOOR = 0.1


@dataclass(frozen=True)
class Dynamics:
    """One chain: contraction factor with its 95 % interval, path efficiency, regime.

    `contraction` is None with fewer than two steps, 0 if it stood still after one.
    `path_efficiency` is None if it never moved.
    """

    contraction: float | None
    contraction_low: float | None
    contraction_high: float | None
    path_efficiency: float | None
    regime: str
    limit_retention: float | None


@dataclass(frozen=True)
class DynamicsSummary:
    """A run's chains: medians, and the number of chains in each regime."""

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


# Cached, because every metric and level needs it for the same chains.
@lru_cache(maxsize=4096)
def _contraction(steps: tuple[float, ...]) -> tuple[float | None, float | None, float | None]:
    """Return exp of the Theil-Sen slope of ln s(n), over the nonzero steps."""
    from scipy.stats import theilslopes

    if len(steps) < 2:
        return None, None, None
    numbers = np.flatnonzero(steps) + 1.0
    if numbers.size < 2:
        # It moved once or never: standing still is the strongest contraction.
        return (0.0, None, None) if not any(steps[1:]) else (None, None, None)
    slope, _, low, high = theilslopes(np.log([s for s in steps if s]), numbers, alpha=0.95)
    if numbers.size < MIN_TRIPS:
        return math.exp(slope), None, None
    return math.exp(slope), math.exp(low), math.exp(high)


def _regime(
    steps: Sequence[float],
    factor: float | None,
    low: float | None,
    high: float | None,
    efficiency: float | None,
) -> str:
    if len(steps) < MIN_TRIPS or factor is None:
        return UNDETERMINED
    # The remaining path of a contraction of 0.3 after its first step. By the slope alone one
    # jump followed by a faint, steady flicker would be a drift.
    if sum(steps[1:]) <= steps[0] * AT_ONCE / (1 - AT_ONCE):
        return IDEMPOTENT
    if low is None or high is None or efficiency is None:
        return UNDETERMINED
    if factor <= STEADY[0]:
        return CONTRACTING if high < 1 else UNDETERMINED
    if factor < STEADY[1] and SURELY[0] <= low and high <= SURELY[1]:
        if efficiency <= CROOKED / math.sqrt(len(steps)):
            return WANDERING
        if efficiency >= STRAIGHT:
            return DRIFTING
    return UNDETERMINED


def _median(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return float(np.median(present)) if present else None


@dataclass(frozen=True)
class CurveShape:
    """The shape that explains a curve best, and its certainty.

    `weights` = the share of the drawn curves that each shape explains best; a curve that two
    shapes explain equally counts for none. `shape` is "undetermined" below 90 %. `rate` = loss
    per trip (linear: of the whole; else of the part above the floor) and `floor` = the end of a
    plateau.
    """

    shape: str
    weights: dict[str, float]
    rate: float | None
    floor: float | None


@dataclass(frozen=True)
class _Fit:
    error: float  # sum of squares
    parameters: int
    rate: float
    floor: float | None = None

    def criterion(self, points: int) -> float:
        """Return AICc; the noise's variance is one more parameter."""
        count = self.parameters + 1
        spread = max(self.error / points, NOISE**2)
        return points * math.log(spread) + 2 * count * points / (points - count - 1)


def curve_shape(
    curve: Sequence[float | None], draws: Iterable[Sequence[float | None]]
) -> CurveShape:
    """Return the shape of Q(0..N), by the corrected Akaike criterion.

    Its certainty comes from `draws` of the curve within its error: neighbouring points share
    their cases, so Akaike's own weights would be overconfident.
    """
    weights = dict.fromkeys(SHAPES, 0.0)
    if len(curve) <= MIN_CURVE_TRIPS or any(q is None for q in curve):
        return CurveShape(UNDETERMINED, weights, None, None)
    points = len(curve) - 1
    wins = Counter(_best(_fits(drawn), points) for drawn in draws)
    if wins:
        weights = {shape: wins[shape] / wins.total() for shape in SHAPES}
    shape = max(SHAPES, key=lambda name: weights[name])
    if weights[shape] < SURE:
        return CurveShape(UNDETERMINED, weights, None, None)
    fit = _fits(curve)[shape]
    return CurveShape(shape, weights, fit.rate, fit.floor)


def _best(fits: dict[str, _Fit], points: int) -> str:
    criteria = {shape: fit.criterion(points) for shape, fit in fits.items()}
    best, second = sorted(SHAPES, key=lambda shape: criteria[shape])[:2]
    # A curve that hardly falls fits a line as well as an exponential.
    return best if criteria[second] - criteria[best] > ALIKE else UNDETERMINED


def _fits(curve: Sequence[float | None]) -> dict[str, _Fit]:
    """Fit each shape through Q(0) = 1 by least squares."""
    n, q = np.arange(1.0, len(curve)), np.array(curve[1:], dtype=float)

    def decay(rates: Floats) -> Floats:
        return np.asarray(np.exp(-rates[..., None] * n))

    def floors(left: Floats) -> Floats:
        lost = 1 - left
        return np.clip(np.vecdot(q - left, lost) / np.vecdot(lost, lost), LEAST_FLOOR, 1)

    def errors(fitted: Floats) -> Floats:
        return np.asarray(((fitted - q) ** 2).sum(axis=-1))

    def plateau(rates: Floats) -> Floats:
        left = decay(rates)
        low = floors(left)[..., None]
        return errors(low + (1 - low) * left)

    slope = float(np.vecdot(1 - q, n) / (n @ n))
    rate, error = _least(lambda rates: errors(decay(rates)))
    rate_to_floor, error_to_floor = _least(plateau)
    floor = float(floors(decay(np.asarray(rate_to_floor))))
    return {
        LINEAR: _Fit(float(errors(1 - slope * n)), 1, slope),
        EXPONENTIAL: _Fit(error, 1, rate),
        PLATEAU: _Fit(error_to_floor, 2, rate_to_floor, floor),
    }


def _least(error: Callable[[Floats], Floats]) -> tuple[float, float]:
    """Return the rate of least error and that error: the best of a grid, refined."""
    from scipy.optimize import minimize_scalar

    best = int(np.argmin(error(RATES)))
    bounds = RATES[max(best - 1, 0)], RATES[min(best + 1, len(RATES) - 1)]
    result = minimize_scalar(lambda rate: float(error(np.asarray(rate))), bounds=bounds)
    return float(result.x), float(result.fun)
