"""Where a picture went that was shifted or zoomed as a whole."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.float32]
Floats: TypeAlias = npt.NDArray[np.float64]

# Registration happens on a small copy, and never corrects more than this.
REGISTER_SIDE = 256
MAX_ZOOM = 1.12
MAX_SHIFT = 0.12  # of the longer side
MAX_SKEW = 0.02
ZOOMS = (1.0, 0.98, 1.02, 0.96, 1.04, 0.94, 1.06, 0.92, 1.08)
SMOOTHING = 5
SURELY = 0.98
NEARBY = 0.5  # pixels of the small copy
# cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, iterations, precision
_CLIMB = (3, 50, 1e-5)


def registrations(x: Values, y: Values) -> list[Floats]:
    """The likely shifts and zooms, as maps from points of `x` to points of `y`."""
    import cv2

    height, width = x.shape[:2]
    scale = min(1.0, REGISTER_SIDE / max(height, width))
    size = (max(8, round(width * scale)), max(8, round(height * scale)))
    small_x, small_y = (cv2.resize(grey(v), size, interpolation=cv2.INTER_AREA) for v in (x, y))
    if np.array_equal(small_x, small_y):
        return []
    everywhere = np.ones_like(small_y, np.uint8)
    found = []
    # The correlation maximiser only climbs the nearest hill: start it at rest, and if that
    # did not find nearly the same picture, where a search over zooms points.
    for begin in (_rest_position, _coarse):
        start = begin(small_x, small_y, size)
        if begin is _coarse and np.abs(start - np.eye(2, 3)).max() < NEARBY:
            break  # that hill has been climbed
        agreement: float = 0.0
        try:
            agreement, warp = cv2.findTransformECC(
                small_x, small_y, start.copy(), cv2.MOTION_AFFINE, _CLIMB, everywhere, SMOOTHING
            )
        except cv2.error:
            warp = start  # it did not converge from here
        if not _still(warp) and _sane(warp, size):
            found.append(_enlarged(warp.astype(np.float64), (width / size[0], height / size[1])))
        if agreement > SURELY:
            break
    return found


def grey(values: Values) -> Values:
    """The mean of the three channels; numpy's takes six times as long over so few."""
    mean: Values = values[..., 0] + values[..., 1]
    mean += values[..., 2]
    mean *= np.float32(1 / 3)
    return mean


def _rest_position(x: Values, y: Values, size: tuple[int, int]) -> Values:
    return np.eye(2, 3, dtype=np.float32)


def _coarse(x: Values, y: Values, size: tuple[int, int]) -> Values:
    """The shift with the zoom, of a few, at which the phases of the pictures agree most."""
    import cv2

    window = cv2.createHanningWindow(size, cv2.CV_32F)
    middle = np.array(size) / 2
    best, response = np.eye(2, 3, dtype=np.float32), -1.0
    for zoom in ZOOMS:
        warp = np.column_stack([np.eye(2) * zoom, middle * (1 - zoom)]).astype(np.float32)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        zoomed = cv2.warpAffine(y, warp, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
        # OpenCV 5.0 multiplies the window into the array it is given.
        shift, agreement = cv2.phaseCorrelate(x.copy(), zoomed, window)
        if agreement > response:
            warp[:, 2] += zoom * np.array(shift, np.float32)
            best, response = warp, agreement
    return best


def _enlarged(warp: Floats, ratio: tuple[float, float]) -> Floats:
    """The warp of a small copy for the picture itself; pixel centres lie at halves."""
    scale, half = np.array(ratio), np.array([0.5, 0.5])
    linear = warp[:, :2] * scale[:, None] / scale[None, :]
    shift = (warp[:, 2] + half - warp[:, :2] @ half) * scale
    return np.column_stack([linear, shift + linear @ half - half])


def _still(warp: npt.NDArray[Any]) -> bool:
    """Whether nothing moves: less than a twentieth of a small copy's pixel, at its far corner."""
    off = np.abs(warp - np.eye(2, 3))
    return bool((off[:, :2].sum(axis=1) * REGISTER_SIDE + off[:, 2]).max() < 0.05)


def _sane(warp: npt.NDArray[Any], size: tuple[int, int]) -> bool:
    zooms, skews = (warp[0, 0], warp[1, 1]), (warp[0, 1], warp[1, 0])
    middle = np.array([size[0] / 2, size[1] / 2])
    moved = warp[:, :2] @ middle + warp[:, 2] - middle
    return (
        all(1 / MAX_ZOOM < zoom < MAX_ZOOM for zoom in zooms)
        and all(abs(skew) < MAX_SKEW for skew in skews)
        and bool(np.abs(moved).max() < MAX_SHIFT * max(size))
    )
