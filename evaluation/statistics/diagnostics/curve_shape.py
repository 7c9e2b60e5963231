"""How a retention curve falls: in a line, exponentially, or down to a plateau."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from evaluation.statistics.survival import Floats

LINEAR, EXPONENTIAL, PLATEAU, UNDETERMINED = "linear", "exponential", "plateau", "undetermined"
SHAPES = (LINEAR, EXPONENTIAL, PLATEAU)
SURE = 0.9
MIN_TRIPS = 6  # the corrected criterion needs more points than a plateau has parameters
# Retention is not exact to more than this, so no fit is better than it.
NOISE = 1e-3
ALIKE = 1e-6
RATES = np.geomspace(1e-5, 10, 48)
# A floor worth the name. It also keeps the shapes apart: with a floor of 0 a plateau
# is an exponential, and no criterion could ever prefer the simpler one for sure.
LEAST_FLOOR = 0.1


@dataclass(frozen=True)
class CurveShape:
    """The shape that explains a curve best, and how sure that is.

    `weights` = the share of the drawn curves that each shape explains best; a curve that
    two of them explain alike counts for none. `shape` is "undetermined" below 90 %.
    `rate` = loss per trip (linear: of the whole; else of what is left to lose) and
    `floor` = where a plateau ends.
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
        """AICc; the noise's own variance is one more parameter."""
        count = self.parameters + 1
        spread = max(self.error / points, NOISE**2)
        return points * math.log(spread) + 2 * count * points / (points - count - 1)


def curve_shape(curve: Sequence[float | None], draws: Iterable[Sequence[float]]) -> CurveShape:
    """The shape of Q(0..N), by the corrected Akaike criterion.

    How sure it is, `draws` of the curve within its error say: neighbouring points share
    their cases, so Akaike's own weights would be too sure of themselves.
    """
    weights = dict.fromkeys(SHAPES, 0.0)
    if len(curve) <= MIN_TRIPS or any(q is None for q in curve):
        return CurveShape(UNDETERMINED, weights, None, None)
    points = len(curve) - 1
    wins = Counter(_best(_fits(np.asarray(own, dtype=float)), points) for own in draws)
    if wins:
        weights = {shape: wins[shape] / wins.total() for shape in SHAPES}
    shape = max(SHAPES, key=lambda name: weights[name])
    if weights[shape] < SURE:
        return CurveShape(UNDETERMINED, weights, None, None)
    fit = _fits(np.array(curve, dtype=float))[shape]
    return CurveShape(shape, weights, fit.rate, fit.floor)


def _best(fits: dict[str, _Fit], points: int) -> str:
    criteria = {shape: fit.criterion(points) for shape, fit in fits.items()}
    best, second = sorted(SHAPES, key=lambda shape: criteria[shape])[:2]
    # What hardly falls at all is a line as well as an exponential.
    return best if criteria[second] - criteria[best] > ALIKE else UNDETERMINED


def _fits(curve: Floats) -> dict[str, _Fit]:
    """Least squares of each shape through Q(0) = 1."""
    n, q = np.arange(1, len(curve)), curve[1:]
    slope = float(n @ (1 - q) / (n @ n))
    linear = _Fit(float(((1 - slope * n - q) ** 2).sum()), 1, slope)

    def floor(rate: float) -> float:
        left = np.exp(-rate * n)
        return float(np.clip((q - left) @ (1 - left) / ((1 - left) @ (1 - left)), LEAST_FLOOR, 1))

    def exponential(rate: float) -> float:
        return float(((np.exp(-rate * n) - q) ** 2).sum())

    def plateau(rate: float) -> float:
        low = floor(rate)
        return float(((low + (1 - low) * np.exp(-rate * n) - q) ** 2).sum())

    # Of all rates at once: one by one they take longer than all else that a standing needs.
    left = _left(len(q))
    lows = ((q - left) * (1 - left)).sum(1) / ((1 - left) ** 2).sum(1)
    lows = np.clip(lows, LEAST_FLOOR, 1)[:, None]
    rate, error = _least(((left - q) ** 2).sum(1), exponential)
    falling = _Fit(error, 1, rate)
    rate, error = _least(((lows + (1 - lows) * left - q) ** 2).sum(1), plateau)
    return {LINEAR: linear, EXPONENTIAL: falling, PLATEAU: _Fit(error, 2, rate, floor(rate))}


@cache
def _left(trips: int) -> Floats:
    """What an exponential leaves after each trip, a row for each of the rates."""
    left: Floats = np.exp(-RATES[:, None] * np.arange(1, trips + 1))
    return left


def _least(grid: Floats, error: Callable[[float], float]) -> tuple[float, float]:
    """The rate with the least error: the best of the grid, then refined between its neighbours."""
    from scipy.optimize import minimize_scalar

    best = int(np.argmin(grid))
    bounds = RATES[max(0, best - 1)], RATES[min(len(RATES) - 1, best + 1)]
    found = minimize_scalar(error, bounds=bounds, method="bounded")
    return float(found.x), float(found.fun)
