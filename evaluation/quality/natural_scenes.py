"""The statistics of natural scenes that BRISQUE and NIQE are made of, for many patches at once.

Luma minus its local mean, divided by its local spread, is distributed much the same in all
photographs; damage changes the shape of that distribution and of the products of neighbours.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from evaluation.quality.base import Values

WINDOW, SIGMA = 7, 7 / 6
#: The shapes that are tried, and what each gives for (mean of |x|)^2 / mean of x^2.
SHAPES = np.arange(0.2, 10, 0.001)
#: A neighbour to the right, below, below to the right, above to the right; wrapped at the border.
NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (-1, 1))


def normalised(luma: NDArray[np.float64], *, replicate: bool, least: float = 0.0) -> Values:
    """Luma without its local mean, over its local spread + 1.

    Beyond the border there is black, or with `replicate` the pixel at the border. `least` is
    added to the variance.
    """
    import cv2

    x = np.arange(WINDOW) - WINDOW // 2
    window = np.exp(-(x**2) / (2 * SIGMA**2))
    window /= window.sum()
    beyond = cv2.BORDER_REPLICATE if replicate else cv2.BORDER_CONSTANT

    def mean(values: Values) -> Values:
        found: Values = cv2.sepFilter2D(values, cv2.CV_64F, window, window, borderType=beyond)
        return found

    mu = mean(luma)
    spread = np.sqrt(np.abs(mean(luma * luma) - mu * mu) + least)
    return (luma - mu) / (spread + 1)


@cache
def shape_ratios() -> Values:
    """(mean of |x|)^2 / mean of x^2 of a generalised Gaussian, for each of SHAPES: it grows."""
    from scipy.special import gammaln

    found: Values = np.exp(2 * gammaln(2 / SHAPES) - gammaln(1 / SHAPES) - gammaln(3 / SHAPES))
    return found


def shape_of(ratio: Values) -> Values:
    """The shape whose ratio is nearest, of each."""
    return _nearest(shape_ratios(), ratio)


def shape_of_inverse(ratio: Values) -> Values:
    """The same for mean of x^2 / (mean of |x|)^2."""
    return _nearest(-1 / shape_ratios(), -ratio)


def _nearest(table: Values, wanted: Values) -> Values:
    right = np.clip(np.searchsorted(table, wanted), 1, len(table) - 1)
    left = right - 1
    nearer = np.abs(table[left] - wanted) <= np.abs(table[right] - wanted)
    return SHAPES[np.where(nearer, left, right)]


def asymmetric_fit(patches: Values, *, zeros_right: bool) -> tuple[Values, Values, Values]:
    """The asymmetric generalised Gaussian of each row: shape, spread to the left and to the right.

    Zeros count as neither side, or with `zeros_right` as the right one.
    """
    below, above = np.minimum(patches, 0), np.maximum(patches, 0)
    lower, upper = np.einsum("ij,ij->i", below, below), np.einsum("ij,ij->i", above, above)
    left = np.count_nonzero(below, axis=1)
    right = patches.shape[1] - left if zeros_right else np.count_nonzero(above, axis=1)
    to_left, to_right = np.sqrt(lower / np.maximum(left, 1)), np.sqrt(upper / np.maximum(right, 1))
    both = to_left * to_left + to_right * to_right
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (above.sum(1) - below.sum(1)) ** 2 / (lower + upper) / patches.shape[1]
        ratio *= (to_left**3 + to_right**3) * (to_left + to_right) / (both * both)
    return shape_of(np.nan_to_num(ratio, nan=np.inf, posinf=np.inf)), to_left, to_right


def neighbour_products(patches: Values) -> list[Values]:
    """Each pixel of patches (patch, row, column) times its neighbour, as rows; one per direction."""
    return [
        (patches * np.roll(patches, shift, axis=(1, 2))).reshape(len(patches), -1)
        for shift in NEIGHBOURS
    ]
