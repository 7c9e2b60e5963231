"""BRISQUE (Mittal, Moorthy, Bovik, 2012): 36 statistics, read by a machine trained on opinions.

The numbers are those of pyiqa, which Banana100 used: its support vectors, its half-size picture
without rounding, black beyond the border.
"""

from __future__ import annotations

from functools import cached_property
from io import BytesIO
from typing import Any

import numpy as np

from evaluation import weights
from evaluation.quality.base import Luma, QualityMetric, Values
from evaluation.quality.natural_scenes import (
    asymmetric_fit,
    neighbour_products,
    normalised,
    shape_of_inverse,
)

#: Cubic weights for half the size, smoothed so that nothing folds over.
HALVING = np.array([-3, -9, 29, 111, 111, 29, -9, -3]) / 256


class Brisque(QualityMetric):
    name, version, smallest = "brisque", "live-774-1", 32
    weights = "brisque"
    modules = {"cv2": "opencv-python-headless", "scipy": "scipy"}

    def value(self, luma: Luma) -> float | None:
        full = luma.astype(np.float64)
        large, small = _features(full), _features(_half(full))
        if large is None or small is None:
            return None  # a picture without contrast
        model = self.model
        scaled = 2 * (np.concatenate([large, small]) - model["feat_min"]) / model["feat_range"] - 1
        apart = ((scaled - model["sv"]) ** 2).sum(1)
        return float(np.exp(-model["gamma"] * apart) @ model["sv_coef"] - model["rho"])

    @cached_property
    def model(self) -> dict[str, Any]:
        """The support vectors with their weights, and the range of each feature."""
        file, _ = weights.locate(self.weights)
        data = file.read_bytes()[8:]  # after its length
        with np.load(BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name].astype(np.float64) for name in arrays.files}


def _features(luma: Values) -> Values | None:
    """The 18 statistics of one size; None where nothing varies."""
    epsilon = float(np.finfo(np.float32).eps)
    field = normalised(luma, replicate=False, least=epsilon)[None]
    flat = field.reshape(1, -1)
    spread, size = float((flat**2).mean()), float(np.abs(flat).mean())
    if size == 0:
        return None
    found = [shape_of_inverse(np.array([spread / size**2]))[0], spread]
    for products in neighbour_products(field):
        if not products.any():
            return None
        (shape,), (left,), (right,) = asymmetric_fit(products, zeros_right=False)
        found += [shape, (right - left) * _mean_factor(shape), left**2, right**2]
    return np.array(found)


def _mean_factor(shape: float) -> float:
    """What the difference of the spreads is multiplied by to give the mean."""
    from scipy.special import gammaln

    log = gammaln(2 / shape) - (gammaln(1 / shape) + gammaln(3 / shape)) / 2
    return float(np.exp(log))


def _half(luma: Values) -> Values:
    """The picture at half its size, mirrored at the border."""
    import cv2

    single = luma.astype(np.float32)
    kernel = HALVING.astype(np.float32)
    smooth = cv2.sepFilter2D(
        single, cv2.CV_32F, kernel, kernel, anchor=(3, 3), borderType=cv2.BORDER_REFLECT
    )
    return smooth[::2, ::2].astype(np.float64)
