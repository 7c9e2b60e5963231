"""PSNR: the mean squared error on sRGB in [0, 1], shown in decibels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evaluation.metrics.base import DirectMetric, Features, Loss, finite

# Equal images have an infinite PSNR, and beyond 60 dB the 8-bit rounding dominates.
CAP = 60.0
ROWS = 64


class Psnr(DirectMetric):
    """PSNR; its distance is the MSE, so means over cases are never means of decibels."""

    name, label, version = "psnr", "PSNR", "1"
    looks_at = "pixels"
    higher_is_better, unit, digits = True, "dB", 2

    def prepare(self, source: Image.Image) -> Features:
        return np.asarray(source)

    def losses(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> Sequence[Loss]:
        pairs = zip(sources, restored, strict=True)
        return finite(self, [mse(source, np.asarray(image)) for source, image in pairs])

    def shown(self, distance: float | None) -> float | None:
        """Return the decibels of a (mean) MSE, at most 60."""
        if distance is None:
            return None
        return CAP if distance <= 10 ** (-CAP / 10) else -10 * math.log10(distance)

    def text(self, distance: float | None) -> str:
        return "identical" if distance == 0 else super().text(distance)


def mse(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return the exact mean squared error of two 8-bit images, as a share of the squared range."""
    total = 0
    # A few rows at a time fit into the processor's cache and limit the memory of a large image.
    for top in range(0, len(a), ROWS):
        difference = np.subtract(a[top : top + ROWS], b[top : top + ROWS], dtype=np.int16)
        # 255² just fits into 16 unsigned bits: integers are exact and faster than floats.
        squares = np.multiply(difference, difference, dtype=np.uint16, casting="unsafe")
        total += int(squares.sum(dtype=np.uint64))
    return total / a.size / 255**2
