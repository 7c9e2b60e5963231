"""Restoration without a network: what is wrong is measured, and one filter answers each fault."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation.editors.following import widened
from evaluation.editors.restorers import RestoringEditor

Pixels = npt.NDArray[np.uint8]
#: Below this the grain is the picture's own; `sigma` of 255.
CLEAN = 2.5
#: A scratch stands out so far from its surroundings, in grey levels and in grains.
SCRATCH_LEVELS, SCRATCH_GRAINS = 32.0, 5.0
#: More than this share is no scratch but texture.
MOST_SCRATCHED = 0.04
#: Light that fills less than this share of the scale is stretched; its ends are these percentiles.
FULL, ENDS = 0.8, (0.5, 99.5)
#: A cast is taken away by gains no stronger than this.
STRONGEST_GAIN = 1.35
#: How much of what a blur takes away is added again, and the blur's sigma in parts of the side.
SHARPEN, SHARPEN_SIGMA = 0.9, 1 / 400


class Restorer(RestoringEditor):
    """Scratches are inpainted, grain is smoothed by non-local means, light and colours are
    stretched, edges sharpened: each as far as the picture seems to need it."""

    def restored(self, image: Image.Image) -> Image.Image:
        pixels: Pixels = np.asarray(image)
        pixels = _without_scratches(pixels)
        pixels = _without_grain(pixels)
        pixels = _stretched(pixels)
        return Image.fromarray(_sharpened(pixels))


def grain(pixels: Pixels) -> float:
    """The sigma of the noise, of 255, by Immerkær's mask: it sees neither planes nor edges."""
    import cv2

    mask = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], dtype=np.float64)
    light = _light(pixels).astype(np.float64)
    found = np.abs(cv2.filter2D(light, -1, mask))
    # The quieter half of the picture tells of grain, the other of texture.
    return float(math.sqrt(math.pi / 2) / 6 * found[found <= np.median(found)].mean() * 2.5)


def _light(pixels: Pixels) -> Pixels:
    import cv2

    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY))


def _without_scratches(pixels: Pixels) -> Pixels:
    import cv2

    light = _light(pixels)
    apart = np.abs(light.astype(np.int16) - cv2.medianBlur(light, 5))
    mask = apart > max(SCRATCH_LEVELS, SCRATCH_GRAINS * grain(pixels))
    if not mask.any() or mask.mean() > MOST_SCRATCHED:
        return pixels
    hole = widened(mask, 1).astype(np.uint8)
    return np.asarray(cv2.inpaint(np.ascontiguousarray(pixels), hole, 3, cv2.INPAINT_TELEA))


def _without_grain(pixels: Pixels) -> Pixels:
    import cv2

    sigma = grain(pixels)
    if sigma < CLEAN:
        return pixels
    # OpenCV's colours are the other way round, and the filter weighs light and colour apart.
    swapped = np.ascontiguousarray(pixels[:, :, ::-1])
    smooth: Any = cv2.fastNlMeansDenoisingColored(swapped, None, 0.9 * sigma, 0.9 * sigma, 5, 15)
    return np.ascontiguousarray(smooth[:, :, ::-1])


def _stretched(pixels: Pixels) -> Pixels:
    """Light over the whole scale where it fills too little of it, and colours without a cast."""
    values = pixels.astype(np.float64)
    low, high = np.percentile(_light(pixels), ENDS)
    if (high - low) / 255 < FULL and high > low:
        means = values.mean(axis=(0, 1))
        gains = np.clip(means.mean() / np.maximum(means, 1), 1 / STRONGEST_GAIN, STRONGEST_GAIN)
        values = values * gains
        low, high = np.percentile(values.mean(axis=-1), ENDS)
        values = (values - low) * 255 / max(high - low, 1)
    return np.rint(np.clip(values, 0, 255)).astype(np.uint8)


def _sharpened(pixels: Pixels) -> Pixels:
    import cv2

    soft = cv2.GaussianBlur(pixels, (0, 0), max(0.6, max(pixels.shape) * SHARPEN_SIGMA))
    values = pixels.astype(np.float64)
    return np.rint(np.clip(values + SHARPEN * (values - soft), 0, 255)).astype(np.uint8)
