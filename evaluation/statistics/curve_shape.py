"""How a retention curve falls: in a line, exponentially, or down to a plateau."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.statistics.half_life import Floats

LINEAR, EXPONENTIAL, PLATEAU, UNDETERMINED = "linear", "exponential", "plateau", "undetermined"
SHAPES = (LINEAR, EXPONENTIAL, PLATEAU)
SURE = 0.9
MIN_TRIPS = 6  # the corrected criterion needs more points than a plateau has parameters
# Retention is not exact to more than this, so no fit is better than it.
NOISE = 1e-3
RATES = np.geomspace(1e-4, 10, 40)
# A floor worth the name. It also keeps the shapes apart: with a floor of 0 a plateau
# is an exponential, and no criterion could ever prefer the simpler one for sure.
LEAST_FLOOR = 0.1


@dataclass(frozen=True)
class CurveShape:
    """The shape that explains a curve best, and how sure that is.

    `weights` by shape sum to 1: Akaike weights, or, where resampled curves
    were given, the share of them that each shape wins. `shape` is "undetermined"
    below 90 %. `rate` = loss per trip (linear: of the whole; else of what is
    left to lose) and `floor` = where a plateau ends.
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


def curve_shape(
    curve: Sequence[float | None], resampled: Iterable[Sequence[float]] | None = None
) -> CurveShape:
    """The shape of Q(0..N), by the corrected Akaike criterion.

    Neighbouring points of a curve share their cases, so Akaike weights are
    too sure of themselves; the share of bootstrap curves (`Replicates.curve`) is not.
    """
    if len(curve) <= MIN_TRIPS or any(q is None for q in curve):
        return CurveShape(UNDETERMINED, dict.fromkeys(SHAPES, 1 / len(SHAPES)), None, None)
    fits = _fits(np.array(curve, dtype=float))
    points = len(curve) - 1
    if resampled is None:
        weights = _akaike({shape: fit.criterion(points) for shape, fit in fits.items()})
    else:
        wins = Counter(_best(_fits(np.asarray(own, dtype=float)), points) for own in resampled)
        weights = {shape: wins[shape] / max(1, wins.total()) for shape in SHAPES}
    shape = max(SHAPES, key=lambda name: weights[name])
    if weights[shape] < SURE:
        return CurveShape(UNDETERMINED, weights, None, None)
    return CurveShape(shape, weights, fits[shape].rate, fits[shape].floor)


def _best(fits: dict[str, _Fit], points: int) -> str:
    return min(SHAPES, key=lambda shape: fits[shape].criterion(points))


def _akaike(criteria: dict[str, float]) -> dict[str, float]:
    best = min(criteria.values())
    raw = {shape: math.exp((best - value) / 2) for shape, value in criteria.items()}
    return {shape: value / sum(raw.values()) for shape, value in raw.items()}


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

    rate, error = _least(exponential)
    falling = _Fit(error, 1, rate)
    rate, error = _least(plateau)
    return {LINEAR: linear, EXPONENTIAL: falling, PLATEAU: _Fit(error, 2, rate, floor(rate))}


def _least(error: Callable[[float], float]) -> tuple[float, float]:
    """The rate with the least error: the best of a grid, then refined between its neighbours."""
    from scipy.optimize import minimize_scalar

    best = int(np.argmin([error(rate) for rate in RATES]))
    bounds = RATES[max(0, best - 1)], RATES[min(len(RATES) - 1, best + 1)]
    found = minimize_scalar(error, bounds=bounds, method="bounded")
    return float(found.x), float(found.fun)
