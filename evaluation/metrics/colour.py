"""Mean colour difference: CIEDE2000 (Sharma et al., 2005) of the images at 128 x 128."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from evaluation.metrics.base import DirectMetric, Features, Loss, LossWords, finite

SIDE = 128


class Colour(DirectMetric):
    """Detail is averaged away first: what is left is whether the colours are still the same.

    The scale is its own, since a blank card's colour difference says little of an
    image: half of it, a mean difference of 10, is plainly another colour.
    """

    name, label, version = "colour", "Colour difference", "ciede2000-128-1"
    looks_at = "colours"
    higher_is_better, unit, digits = False, "ΔE", 1
    blank = 20.0
    lost = LossWords(
        cause="colour",
        ended="the colours have changed",
        crossed="The colours are plainly others",
        because="by its colours",
        most="the colours changed most",
        level="whole-image",
    )
    modules = {"cv2": "opencv-python-headless", "skimage": "scikit-image"}

    def prepare(self, source: Image.Image) -> Features:
        return _lab(source)

    def losses(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> Sequence[Loss]:
        from skimage.color import deltaE_ciede2000

        pairs = zip(sources, restored, strict=True)
        found = [deltaE_ciede2000(source, _lab(image)).mean() for source, image in pairs]
        return finite(self, [float(value) for value in found])

    def shown(self, distance: float | None) -> float | None:
        return distance


def _lab(image: Image.Image) -> Any:
    """The box averages of the image in CIELAB; a side below 128 px stays as it is."""
    import cv2
    from skimage.color import rgb2lab

    values = np.asarray(image, dtype=np.float32)
    size = (min(SIDE, image.width), min(SIDE, image.height))
    small = cv2.resize(values, size, interpolation=cv2.INTER_AREA)
    return rgb2lab(np.asarray(small, dtype=np.float64) / 255)
