"""How a retention curve falls: in a line, exponentially, or down to a plateau."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.analysis.diagnostics.bounded_search import least
from evaluation.analysis.survival import Floats

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
    drawn = np.array(list(draws), dtype=float).reshape(-1, len(curve))
    wins = Counter(_best(fits, points) for fits in _fits(drawn))
    if wins:
        weights = {shape: wins[shape] / wins.total() for shape in SHAPES}
    shape = max(SHAPES, key=lambda name: weights[name])
    if weights[shape] < SURE:
        return CurveShape(UNDETERMINED, weights, None, None)
    fit = _fits(np.array([curve], dtype=float))[0][shape]
    return CurveShape(shape, weights, fit.rate, fit.floor)


def _best(fits: dict[str, _Fit], points: int) -> str:
    criteria = {shape: fit.criterion(points) for shape, fit in fits.items()}
    best, second = sorted(SHAPES, key=lambda shape: criteria[shape])[:2]
    # What hardly falls at all is a line as well as an exponential.
    return best if criteria[second] - criteria[best] > ALIKE else UNDETERMINED


def _fits(curves: Floats) -> list[dict[str, _Fit]]:
    """Least squares of each shape through Q(0) = 1, for each of the curves.

    Of all curves at once: one by one they take longer than all else that a standing needs.
    """
    n, q = np.arange(1.0, curves.shape[1]), curves[:, 1:]

    def decay(rates: Floats) -> Floats:
        return np.asarray(np.exp(-rates[..., None] * n))

    def floors(left: Floats) -> Floats:
        lost = 1 - left
        return np.clip(np.vecdot(q - left, lost) / np.vecdot(lost, lost), LEAST_FLOOR, 1)

    def errors(fitted: Floats) -> Floats:
        return np.asarray(((fitted - q) ** 2).sum(axis=-1))

    def exponential(rates: Floats) -> Floats:
        return errors(decay(rates))

    def plateau(rates: Floats) -> Floats:
        left = decay(rates)
        low = floors(left)[..., None]
        return errors(low + (1 - low) * left)

    slopes = np.vecdot(1 - q, n) / (n @ n)
    linear = slopes, errors(1 - slopes[:, None] * n)
    to_floor = _least(plateau)
    columns = (*linear, *_least(exponential), *to_floor, floors(decay(to_floor[0])))
    found = []
    for own in np.column_stack(columns).tolist():
        slope, of_line, rate, of_exponential, rate_to_floor, of_plateau, floor = own
        fits = {
            LINEAR: _Fit(of_line, 1, slope),
            EXPONENTIAL: _Fit(of_exponential, 1, rate),
            PLATEAU: _Fit(of_plateau, 2, rate_to_floor, floor),
        }
        found.append(fits)
    return found


def _least(error: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """The rate of least error of each curve, and that error.

    The best of the grid, then refined between its neighbours.
    """
    best = np.argmin(error(RATES[:, None]), axis=0)
    low, high = np.maximum(best - 1, 0), np.minimum(best + 1, len(RATES) - 1)
    return least(error, RATES[low], RATES[high])
