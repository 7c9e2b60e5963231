"""Was the edit made? (method §4)

Without this question a model that returns its input would win every round trip.
A seen change proves that something changed where it should, not that glasses
appeared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation.content import operators
from evaluation.content.suites import EditPair
from evaluation.images import fit

Values: TypeAlias = npt.NDArray[np.float32]

MATCH = 0.5  # exact pairs: the least correlation with the ground truth
BLOCK = 32
TOP_SHARE = 0.03
TOP = 0.10
TOP_TO_MEDIAN = 5.0
DRIFTS = 3.0
# Registration happens on a small copy, and never corrects more than this.
REGISTER_SIDE = 256
MAX_ZOOM = 1.12
MAX_SHIFT = 0.12  # of the longer side
MAX_SKEW = 0.02
ZOOMS = (1.0, 0.98, 1.02, 0.96, 1.04, 0.94, 1.06, 0.92, 1.08)
REST_SHARE = 0.8
SMOOTHING = 5
SURELY = 0.98
BLURS = (0.8, 1.5, 2.5, 4.0)  # standard deviations, in pixels
SHARP = 0.95
# cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, iterations, precision
_CLIMB = (3, 50, 1e-5)


@dataclass(frozen=True)
class ChangeSeen:
    """The verdict on one forward edit (None: not judged) and the numbers behind it."""

    seen: bool | None
    measure: dict[str, float] = field(default_factory=dict)


def change_seen(before: Image.Image, after: Image.Image, pair: EditPair) -> ChangeSeen:
    """Whether `after` shows the forward edit of `pair` made on `before`.

    A global or identity pair is only measured: the one is judged by the other when the whole
    run is there (`trip_measures.judge_global`).
    """
    if pair.change == "exact":
        return _exact(before, after, pair.operator)
    if pair.change == "local":
        return _local(before, after)
    return ChangeSeen(None, {"moved": drift(before, after)})


def drift(before: Image.Image, after: Image.Image) -> float:
    """The mean absolute difference of two pictures, of the full range."""
    return float(np.abs(_values(after, before.size) - _values(before)).mean())


def _exact(before: Image.Image, after: Image.Image, operator: str) -> ChangeSeen:
    truth = operators.apply(operator, before)
    answer, moved = _values(after, truth.size), _values(truth)
    to_truth = correlation(answer, moved)
    to_input = correlation(answer, _values(before, truth.size))
    measure = {
        "to_truth": to_truth,
        "to_input": to_input,
        "truth_mse": float(np.square(answer - moved).mean(dtype=np.float64)),
    }
    return ChangeSeen(to_truth > to_input and to_truth >= MATCH, measure)


def correlation(a: Values, b: Values) -> float:
    """The normalised cross-correlation of two pictures; 0 where one of them is flat."""
    a, b = a - a.mean(axis=(0, 1)), b - b.mean(axis=(0, 1))
    norm = math.sqrt(float(np.square(a).sum()) * float(np.square(b).sum()))
    return float((a * b).sum()) / norm if norm > 1e-9 * a.size else 0.0


def _local(before: Image.Image, after: Image.Image) -> ChangeSeen:
    x, y = _values(before), _values(after, before.size)
    blocks, registered = _blocks(x, y), False
    # What the model did to the whole picture only takes differences away when it is
    # accounted for, so that need not be tried where there are few.
    if _top(blocks) >= TOP:
        for other in _accounted(x, y):
            # An edit fills the few blocks that differ most; the rest tells which fits best.
            if _rest(other) < _rest(blocks):
                blocks, registered = other, True
    top, median = _top(blocks), float(np.median(blocks))
    seen = top >= TOP and top >= TOP_TO_MEDIAN * median
    return ChangeSeen(seen, {"top": top, "median": median, "registered": float(registered)})


def _accounted(x: Values, y: Values) -> Iterator[npt.NDArray[np.float64]]:
    """The blocks after the likeliest shift and zoom, and with the source as blurred as the answer."""
    import cv2

    warp, blocks = None, None
    for candidate in _registrations(x, y):
        registered = _blocks(x, y, candidate)
        if blocks is None or _rest(registered) < _rest(blocks):
            warp, blocks = candidate, registered
    if blocks is not None:
        yield blocks
    if _is_blurred(x, y):
        for sigma in BLURS:
            yield _blocks(np.asarray(cv2.GaussianBlur(x, (0, 0), sigma)), y, warp)


def _is_blurred(x: Values, y: Values) -> bool:
    """Whether most of the picture has lost fine detail; an edit changes that only where it is."""
    import cv2

    before, after = (_per_block(np.abs(cv2.Laplacian(v.mean(axis=2), cv2.CV_32F))) for v in (x, y))
    return float(np.median(after / (before + 1e-6))) < SHARP


def _top(blocks: npt.NDArray[np.float64]) -> float:
    return float(np.sort(blocks)[-max(1, math.ceil(TOP_SHARE * len(blocks))) :].mean())


def _rest(blocks: npt.NDArray[np.float64]) -> float:
    return float(np.sort(blocks)[: max(1, int(REST_SHARE * len(blocks)))].mean())


def _blocks(
    x: Values, y: Values, warp: npt.NDArray[np.float64] | None = None
) -> npt.NDArray[np.float64]:
    """The mean |y - x| of every 32 px block that lies at least half inside both pictures."""
    height, width = x.shape[:2]
    inside = np.ones((height, width), np.float32)
    if warp is not None:
        import cv2

        flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
        y = np.clip(cv2.warpAffine(y, warp, (width, height), flags=flags), 0, 1)
        nearest = cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
        inside = np.asarray(cv2.warpAffine(inside, warp, (width, height), flags=nearest))
    difference = np.abs(y - x).mean(axis=2) * inside
    sums, counts = _per_block(difference), _per_block(inside)
    # Of a picture smaller than a block, what there is is the block.
    whole = counts >= min(BLOCK * BLOCK, height * width) / 2
    return sums[whole] / counts[whole] if whole.any() else np.zeros(1)


def _per_block(values: Values) -> npt.NDArray[np.float64]:
    rows, columns = (np.arange(0, side, BLOCK) for side in values.shape)
    sums = np.add.reduceat(np.add.reduceat(values, rows, axis=0), columns, axis=1)
    return sums.astype(np.float64)


def _registrations(x: Values, y: Values) -> list[npt.NDArray[np.float64]]:
    """The likely shifts and zooms, as maps from points of `x` to points of `y`."""
    import cv2

    height, width = x.shape[:2]
    scale = min(1.0, REGISTER_SIDE / max(height, width))
    size = (max(8, round(width * scale)), max(8, round(height * scale)))
    small_x, small_y = (
        cv2.resize(v.mean(axis=2), size, interpolation=cv2.INTER_AREA) for v in (x, y)
    )
    if np.array_equal(small_x, small_y):
        return []
    everywhere = np.ones_like(small_y, np.uint8)
    found = []
    # The correlation maximiser only climbs the nearest hill: start it at rest, and if that
    # did not find nearly the same picture, where a search over zooms points.
    for begin in (_rest_position, _coarse):
        start = begin(small_x, small_y, size)
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


def _rest_position(x: Values, y: Values, size: tuple[int, int]) -> npt.NDArray[np.float32]:
    return np.eye(2, 3, dtype=np.float32)


def _coarse(x: Values, y: Values, size: tuple[int, int]) -> npt.NDArray[np.float32]:
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


def _enlarged(warp: npt.NDArray[np.float64], ratio: tuple[float, float]) -> npt.NDArray[np.float64]:
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


def _values(image: Image.Image, size: tuple[int, int] | None = None) -> Values:
    fitted = fit(image, size) if size else image
    return np.asarray(fitted, dtype=np.float32) / np.float32(255)
