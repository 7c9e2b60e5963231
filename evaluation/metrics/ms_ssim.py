"""MS-SSIM (Wang et al., 2003): SSIM over five scales, each half as large as the last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from evaluation.metrics.base import DirectMetric, Features, finite
from evaluation.metrics.ssim import WINDOW, Moments, Plane, centred, plane

WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
# Rows halved at a time.
BAND = 512


class MsSsim(DirectMetric):
    """Contrast and structure at every scale, luminance at the last; channels averaged.

    A picture too small for the window at the fifth scale is not measured: with
    fewer scales it would be another metric.
    """

    name, label, version = "ms_ssim", "MS-SSIM", "1"
    looks_at = "structure, coarse to fine"
    higher_is_better = True
    smallest = WINDOW * 2 ** (len(WEIGHTS) - 1)
    modules = {"cv2": "opencv-python-headless"}
    holds_much = True

    def prepare(self, source: Image.Image) -> Features:
        return [Moments.held(scale) for scale in _scales(plane(source))]

    def distances(self, source: Features, restored: Sequence[Image.Image]) -> list[float]:
        return finite(self, [1 - _similarity(source, plane(image)) for image in restored])


def _similarity(source: Sequence[Moments], values: Plane) -> float:
    parts = [moments.compare(scale) for moments, scale in zip(source, _scales(values), strict=True)]
    terms = np.array([structure for _, structure in parts[:-1]] + [parts[-1][0]])
    # A negative term has no fractional power; it is no similarity at all.
    powers = np.maximum(terms, 0.0) ** np.array(WEIGHTS)[:, None]
    return float(powers.prod(axis=0).mean())


def _scales(values: Plane) -> list[Plane]:
    """The picture at five sizes: each pixel the mean of two by two of the one before."""
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
