"""The kind of damage in a restored image: moved, tinted, grainy, smooth or redrawn.

Retention measures the amount of loss; these numbers describe its kind. Failure labels are
derived from them (evaluation.analysis.failure_labels).
"""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

from evaluation.alignment import Aligned, Floats, Values, grey, moved, registrations
from evaluation.images import fit
from evaluation.metrics.base import CELLS, Mask

# Structure is compared on copies of this side.
SIDE = 256
# The band of structure, as standard deviations of blurs: finer is grain, coarser is light.
FINE, COARSE = 1.5, 12.0
# Windows of a sixth of the side, about a face.
WINDOW = 1 / 6
# Standard deviation, of the full range, below which a window is empty.
PLAIN = 0.012
# Windows that correlate less than this have changed content.
ELSE = 0.4
# Below LESS content is lost, above MORE it is invented; in between it is replaced.
LESS, MORE = math.log(0.7), math.log(1.4)
# Fine detail is measured in cells, as the mean absolute difference from a blur.
DETAIL_BLUR, FLOOR = 1.0, 1.5 / 255
LARGEST = 1024


def damage(
    source: Image.Image, restored: Image.Image, footprint: Mask | None = None
) -> dict[str, float]:
    """Measure the differences of the restored image from its source, outside the footprint.

    `zoom` and `shift` (share of the side) of the whole image; `cast`, the median shift of its
    hues in CIELAB; `detail`, the log ratio of fine detail to the source's; `changed`, the share
    of places with other content, and within it the shares in which content is `lost` or
    `invented`.
    """
    fitted = fit(restored, source.size)
    x, y = (_values(image, SIDE) for image in (source, fitted))
    still = Aligned(x, y, np.ones(x.shape[:2], np.float32), block=16)
    warps = [np.eye(2, 3), *registrations(x, y)]
    candidates = [still, *(moved(still, warp) for warp in warps[1:])]
    best = min(range(len(warps)), key=lambda place: candidates[place].rest)
    zoom, shift = _movement(warps[best], x.shape[:2])
    changed, lost, invented = _structure(candidates[best], footprint)
    measures = {
        "zoom": zoom,
        "shift": shift,
        "cast": _cast(x, y),
        "detail": _detail(source, fitted),
        "changed": changed,
        "lost": lost,
        "invented": invented,
    }
    return {name: round(value, 5) for name, value in measures.items()}


def _values(image: Image.Image, side: int) -> Values:
    scale = min(1.0, side / max(image.size))
    size = (max(16, round(image.width * scale)), max(16, round(image.height * scale)))
    small = image.resize(size, Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float32) / np.float32(255)


def _movement(warp: Floats, shape: tuple[int, ...]) -> tuple[float, float]:
    """Return the zoom, and the shift of the centre as a share of the longer side."""
    middle = np.array([shape[1] / 2, shape[0] / 2])
    way = warp[:, :2] @ middle + warp[:, 2] - middle
    zoom = math.sqrt(abs(float(np.linalg.det(warp[:, :2]))))
    return zoom, float(np.abs(way).max()) / max(shape[:2])


def _cast(x: Values, y: Values) -> float:
    import cv2

    hues = [cv2.cvtColor(v, cv2.COLOR_RGB2Lab)[..., 1:] for v in (x, y)]
    moved_by = hues[1] - hues[0]
    # The median over pixels, because a new object in one place is no cast.
    return math.hypot(*(float(np.median(moved_by[..., n])) for n in (0, 1)))


def _detail(source: Image.Image, restored: Image.Image) -> float:
    import cv2

    fine = []
    for image in (source, restored):
        light = grey(_values(image, LARGEST))
        left = np.abs(light - cv2.GaussianBlur(light, (0, 0), DETAIL_BLUR))
        fine.append(cv2.resize(left, (CELLS, CELLS), interpolation=cv2.INTER_AREA) + FLOOR)
    return float(np.median(np.log(fine[1] / fine[0])))


def _structure(images: Aligned, footprint: Mask | None) -> tuple[float, float, float]:
    """Return the shares of places with other content: all, with less, with more."""
    import cv2

    height, width = images.inside.shape
    window = (max(3, round(width * WINDOW)), max(3, round(height * WINDOW)))

    def mean(values: Values) -> Values:
        averaged: Values = cv2.blur(values, window, borderType=cv2.BORDER_REFLECT)
        return averaged

    x, y = (_band(v) * images.inside for v in (images.before, images.after))
    middle_x, middle_y = mean(x), mean(y)
    spread_x, spread_y = (
        np.sqrt(np.maximum(0, mean(v * v) - m * m)) for v, m in ((x, middle_x), (y, middle_y))
    )
    together = mean(x * y) - middle_x * middle_y
    likeness = together / (spread_x * spread_y + PLAIN**2)
    counts = (np.maximum(spread_x, spread_y) > PLAIN) & (mean(images.inside) > 0.75)
    if footprint is not None:
        region = cv2.resize(footprint.astype(np.float32), (width, height))
        counts &= mean(region) < 0.25
    replaced = counts & (likeness < ELSE)
    amount = np.log((spread_y + PLAIN / 2) / (spread_x + PLAIN / 2))
    less, more = replaced & (amount < MORE), replaced & (amount > LESS)
    return float(replaced.mean()), float(less.mean()), float(more.mean())


def _band(values: Values) -> Values:
    import cv2

    light = grey(values)
    fine, coarse = (cv2.GaussianBlur(light, (0, 0), sigma) for sigma in (FINE, COARSE))
    band: Values = fine - coarse
    return band
