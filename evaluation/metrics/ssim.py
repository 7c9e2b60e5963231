"""SSIM and MS-SSIM: similarity of structure on RGB, averaged over channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evaluation.metrics.base import DirectMetric, Features, Loss, finite, is_large

Plane: TypeAlias = NDArray[np.float32]

WINDOW, SIGMA = 11, 1.5
C1, C2 = np.float32((0.01 * 255) ** 2), np.float32((0.03 * 255) ** 2)
# An offset does not change variances, and smaller numbers lose less to rounding.
OFFSET = np.float32(128)
# Rows compared at a time, so that intermediate values stay in the processor's cache.
ROWS = 64


class Ssim(DirectMetric):
    """SSIM (Wang et al., 2004): Gaussian window 11 x 11, sigma 1.5.

    Numbers equal those of scikit-image's `structural_similarity(gaussian_weights=True, sigma=1.5,
    use_sample_covariance=False)`. OpenCV's separable filter in float32 is about ten times faster.
    """

    name, label, version = "ssim", "SSIM", "1"
    looks_at = "structure"
    higher_is_better = True
    smallest = WINDOW
    modules = {"cv2": "opencv-python-headless"}
    large_features = True

    def prepare(self, source: Image.Image) -> Features:
        return Moments.of(plane(source))

    def losses(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> Sequence[Loss]:
        pairs = zip(sources, restored, strict=True)
        similar = (source.compare(plane(image))[0].mean() for source, image in pairs)
        return finite(self, [1 - float(value) for value in similar])


@dataclass(frozen=True)
class Moments:
    """An image minus OFFSET, with local means and variances inside the border.

    For a large image, means and variances are computed at each comparison instead.
    """

    values: Plane
    mean: Plane | None = None
    variance: Plane | None = None

    @classmethod
    def of(cls, values: Plane) -> Moments:
        height, width = values.shape[:2]
        return cls(values) if is_large((width, height)) else cls(values, *moments(values))

    def compare(self, values: Plane) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean similarity, and that of contrast and structure alone, by channel."""
        whole = np.zeros(3)
        structure = np.zeros(3)
        height, width = (side - WINDOW + 1 for side in values.shape[:2])
        for top in range(0, height, ROWS):
            rows = slice(top, top + ROWS)
            read = slice(top, min(top + ROWS, height) + WINDOW - 1)
            source, other = centred(self.values[read]), centred(values[read])
            light, form = self._compare_rows(rows, source, other)
            structure += form.sum(axis=(0, 1), dtype=np.float64)
            light *= form
            whole += light.sum(axis=(0, 1), dtype=np.float64)
        return whole / (height * width), structure / (height * width)

    def _compare_rows(self, rows: slice, source: Plane, other: Plane) -> tuple[Plane, Plane]:
        """Return the maps of luminance and of contrast-and-structure similarity."""
        if self.mean is None or self.variance is None:
            mean, variance = moments(source)
        else:
            mean, variance = self.mean[rows], self.variance[rows]
        other_mean, other_variance = moments(other)
        covariance = smooth(source * other)
        covariance -= mean * other_mean
        other_variance += variance
        bright, others = mean + OFFSET, other_mean + OFFSET
        light = _ratio(bright * others, bright * bright + others * others, C1)
        return light, _ratio(covariance, other_variance, C2)


def moments(values: Plane) -> tuple[Plane, Plane]:
    """Return local means and variances, for windows inside the image."""
    mean = smooth(values)
    variance = smooth(values * values)
    variance -= mean * mean
    return mean, variance


def _ratio(product: Plane, squares: Plane, constant: np.float32) -> Plane:
    """Return (2 product + constant) / (squares + constant), computed in place."""
    product *= 2
    product += constant
    squares += constant
    product /= squares
    return product


def plane(image: Image.Image) -> Plane:
    """Return the image minus OFFSET; a large image unchanged, to be centred some rows at a time."""
    values: Any = np.asarray(image)
    return values if is_large(image.size) else centred(values)


def centred(values: Any) -> Plane:
    """Return 8-bit values minus OFFSET; other values unchanged."""
    if values.dtype != np.uint8:
        return values
    floats: Plane = values.astype(np.float32)
    floats -= OFFSET
    return floats


def smooth(values: Plane) -> Plane:
    """Return the Gaussian-weighted local mean, for windows inside the image."""
    import cv2

    kernel = cv2.getGaussianKernel(WINDOW, SIGMA, cv2.CV_32F)
    filtered: Any = cv2.sepFilter2D(values, cv2.CV_32F, kernel, kernel)
    border = WINDOW // 2
    inside: Plane = filtered[border:-border, border:-border]
    return inside


WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
# Rows resized at a time.
BAND = 512


class MsSsim(DirectMetric):
    """MS-SSIM (Wang et al., 2003): SSIM over five scales, each half the size of the one before.

    It combines contrast and structure of every scale with luminance of the last. An image too small
    for the window at the fifth scale is not measured, because fewer scales would be another metric.
    """

    name, label, version = "ms_ssim", "MS-SSIM", "1"
    looks_at = "structure, coarse to fine"
    higher_is_better = True
    smallest = WINDOW * 2 ** (len(WEIGHTS) - 1)
    modules = {"cv2": "opencv-python-headless"}
    large_features = True

    def prepare(self, source: Image.Image) -> Features:
        return [Moments.of(scale) for scale in _scales(plane(source))]

    def losses(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> Sequence[Loss]:
        pairs = zip(sources, restored, strict=True)
        return finite(self, [1 - _similarity(source, plane(image)) for source, image in pairs])


def _similarity(source: Sequence[Moments], values: Plane) -> float:
    parts = [moments.compare(scale) for moments, scale in zip(source, _scales(values), strict=True)]
    terms = np.array([structure for _, structure in parts[:-1]] + [parts[-1][0]])
    # A negative term has no fractional power and counts as no similarity.
    powers = np.maximum(terms, 0.0) ** np.array(WEIGHTS)[:, None]
    return float(powers.prod(axis=0).mean())


def _scales(values: Plane) -> list[Plane]:
    """Return the image at five sizes; each pixel is the mean of 2 x 2 pixels of the last size."""
    import cv2

    scales = [values]
    while len(scales) < len(WEIGHTS):
        height, width = (side // 2 * 2 for side in scales[-1].shape[:2])
        bands = (
            centred(scales[-1][top : min(top + BAND, height), :width])
            for top in range(0, height, BAND)
        )
        halves = [
            cv2.resize(band, (width // 2, len(band) // 2), interpolation=cv2.INTER_AREA)
            for band in bands
        ]
        scales.append(np.concatenate(halves, dtype=np.float32))
    return scales
