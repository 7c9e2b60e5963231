"""Correct changes of the whole image: shift, zoom, colours, blur and warp.

An editor that makes its edit and also shifts everything by a pixel, or warms the light, changes
every pixel. The changes corrected here do not count as the edit (docs/method.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation.images import fit

# The largest side of a block in pixels, and the smallest number of blocks along the shorter side.
BLOCK, BLOCKS = 32, 16
# An image with this longer side is processed at half its size, an image twice as large at a
# quarter. This is four times as fast, and changes the means of blocks hardly at all.
LARGE = 1024
# An edit fills the few blocks that differ most. So corrections are compared only on this share of
# the blocks: those that differ least.
UNEDITED_SHARE = 0.8
# Colours are fitted on a small copy, to the share of its pixels that fit best. This share excludes
# the edit.
COLOUR_SIDE = 64
FITTING = 0.6
CONVERGED = 0.98  # stop if a round leaves more than this share of the error
GAINS, OFFSETS = (0.5, 2.0), (-0.4, 0.4)
# Weight of a prior that keeps gains near 1. The prior matters only at low contrast.
PRIOR = 1e-3
# A fit may also desaturate the image by half or fully, if this halves the error that gains and
# offsets leave. The error covers 0.9 of the pixels, because perhaps only a few are colourful.
DESATURATIONS = (0.5, 1.0)
DESATURATED_FITTING, MAX_DESATURATED_ERROR = 0.9, 0.5
LIGHT = np.array([0.299, 0.587, 0.114])
BLURS = (0.8, 1.5, 2.5, 4.0)  # standard deviations, in pixels
SHARP = 0.95  # at this share of the first image's sharpness, the second lost no detail
# A warp is estimated on a small copy, then refined on a larger one. Lengths of flows are shares of
# the longer side.
FLOW_SIDES = (256, 512)
FLOW_SMOOTHING = 1 / 40
MAX_FLOW = 0.06
# Pixels that differ by this much after the flow were probably edited: they have half the weight.
FLOW_DOUBT = 0.03
# A flow counts as a warp if it explains at least this share, and at least this amount, of the
# difference outside the edit. Other flows only smear the edit into its surroundings. Share and
# amount are measured on blurred copies: any flow explains a little grain, and edges may be a pixel
# apart.
# In tests flows explained at least half of the difference after a warp, and at least 0.002, but
# none of the difference after noise, JPEG or an added object.
FLOW_MIN_SHARE = 0.3
FLOW_MIN_GAIN = 0.001
FLOW_BLUR = 1.5 / 512
# The largest distance over which a warp may move colours.
FLOW_REACH = 1 / 32
# If the longer side is below this, the image is too small to detect a warp.
FLOW_MIN_SIDE = 64


@dataclass(frozen=True)
class Aligned:
    """Two images of equal size, before and after an edit, with the corrections so far."""

    before: Values
    after: Values
    #: 1 where `after` has a pixel for `before`; 0 where a shift left none.
    inside: Values
    #: The side of a block, in pixels.
    block: int
    was_moved: bool = False

    @cached_property
    def difference(self) -> Values:
        """The mean absolute difference of the channels, 0..1."""
        difference: Values = grey(np.abs(self.after - self.before)) * self.inside
        return difference

    @cached_property
    def blocks(self) -> Floats:
        """The mean difference of every block that is at least half inside both images."""
        sums, counts = (per_block(v, self.block) for v in (self.difference, self.inside))
        # An image smaller than a block counts as one block.
        whole = counts >= min(self.block**2, self.inside.size) / 2
        return sums[whole] / counts[whole] if whole.any() else np.zeros(1)

    @property
    def rest(self) -> float:
        """The mean difference of the blocks that differ least, which exclude the edit."""
        return float(np.sort(self.blocks)[: max(1, int(UNEDITED_SHARE * len(self.blocks)))].mean())


def unaligned(before: Image.Image, after: Image.Image) -> Aligned:
    """Return both images uncorrected, at the size of the first or a fraction of that size."""
    factor = 2 ** max(0, int(math.log2(max(before.size) / (LARGE / 2))))
    # Small images need smaller blocks: at 256 px, blocks of 32 missed objects that were added.
    block = max(1, min(BLOCK, min(before.size) // BLOCKS))
    factor = min(factor, block)
    x, y = (_values(image, factor) for image in (before, fit(after, before.size)))
    return Aligned(x, y, np.ones(x.shape[:2], np.float32), block // factor)


def _values(image: Image.Image, factor: int) -> Values:
    small = image.reduce(factor) if factor > 1 else image
    return np.asarray(small, dtype=np.float32) / np.float32(255)


def registered(images: Aligned) -> Aligned:
    """Correct shift, zoom and colours; return the best fit."""
    warps = likely_warps(images.before, images.after)
    return min(
        (recoloured(images if warp is None else moved(images, warp)) for warp in (None, *warps)),
        key=lambda corrected: corrected.rest,
    )


def moved(images: Aligned, warp: Floats) -> Aligned:
    """Align the second image by a warp that maps points of the first to the second."""
    import cv2

    height, width = images.inside.shape
    flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    edge = cv2.BORDER_REPLICATE
    after = cv2.warpAffine(images.after, warp, (width, height), flags=flags, borderMode=edge)
    flags = cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
    inside = cv2.warpAffine(images.inside, warp, (width, height), flags=flags)
    return replace(images, after=np.clip(after, 0, 1), inside=np.asarray(inside), was_moved=True)


def recoloured(images: Aligned) -> Aligned:
    """Fit the colours of the first image to those of the second."""
    import cv2

    height, width = images.inside.shape
    size = (min(width, COLOUR_SIDE), min(height, COLOUR_SIDE))
    x, y, inside = (
        np.asarray(cv2.resize(v, size, interpolation=cv2.INTER_AREA), dtype=np.float64)
        for v in (images.before, images.after, images.inside)
    )
    usable = inside > 0.99
    # Pixels clipped to white or black carry no information about colour.
    unclipped = usable & ((y > 0.03) & (y < 0.97)).all(axis=2)
    if unclipped.mean() >= 0.3:
        usable = unclipped
    if not usable.any():
        return images
    # Channels first: numpy sums a long axis fast, an axis of three slowly.
    matrix, offset = _colour_fit(*(np.ascontiguousarray(v[usable].T) for v in (x, y)))
    before = images.before @ matrix.T.astype(np.float32) + offset.astype(np.float32)
    return replace(images, before=np.clip(before, 0, 1))


def _colour_fit(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the matrix and offset that map the colours of x to those of y.

    Both inputs have one row per channel. Only the pixels that fit best count.
    """
    gain, offset = _gain_fit(x, y)
    matrix = np.diag(gain)
    least = _trimmed_mean(_colour_error(x, y, matrix, offset), DESATURATED_FITTING)
    for share in DESATURATIONS:
        paled = (1 - share) * np.eye(3) + share * LIGHT
        gain, paler_offset = _gain_fit(paled @ x, y)
        paler = gain[:, None] * paled
        error = _trimmed_mean(_colour_error(x, y, paler, paler_offset), DESATURATED_FITTING)
        if error < MAX_DESATURATED_ERROR * least:
            matrix, offset, least = paler, paler_offset, error / MAX_DESATURATED_ERROR
    return matrix, offset


def _gain_fit(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return each channel's gain and offset from x to y, by the pixels that fit best."""
    fits = []
    # A large edit misleads a fit to all pixels. So one search starts from this fit and another from
    # no change, and the better result counts.
    for gain, offset in ((np.ones(3), np.zeros(3)), _least_squares(x, y)):
        left, error = np.inf, _colour_error(x, y, np.diag(gain), offset)
        for _ in range(8):
            last = int(FITTING * (error.size - 1))
            fitting = error <= np.partition(error, last)[last]
            gain, offset = _least_squares(x[:, fitting], y[:, fitting])
            error = _colour_error(x, y, np.diag(gain), offset)
            left, before = _trimmed_mean(error, FITTING), left
            if left > CONVERGED * before:
                break
        fits.append((left, gain, offset))
    _, gain, offset = min(fits, key=lambda fit: fit[0])
    return gain, offset


def _colour_error(x: Floats, y: Floats, matrix: Floats, offset: Floats) -> Floats:
    fitted = matrix @ x
    fitted += offset[:, None]
    np.clip(fitted, 0, 1, out=fitted)
    fitted -= y
    error: Floats = np.abs(fitted, out=fitted).sum(axis=0)
    return error


def _trimmed_mean(error: Floats, share: float) -> float:
    """Return the mean error of the best-fitting share of the pixels."""
    count = max(1, int(share * len(error)))
    return float(np.partition(error, count - 1)[:count].mean())


def _least_squares(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    middle_x, middle_y = x.mean(axis=1), y.mean(axis=1)
    from_middle = x - middle_x[:, None]
    together = (from_middle * (y - middle_y[:, None])).mean(axis=1)
    gain = (together + PRIOR) / (np.square(from_middle).mean(axis=1) + PRIOR)
    gain = np.clip(gain, *GAINS)
    return gain, np.clip(middle_y - gain * middle_x, *OFFSETS)


def equally_sharp(images: Aligned) -> Aligned:
    """Blur the first image as much as the second, if all of the second lost detail."""
    import cv2

    before, after = (
        per_block(np.abs(cv2.Laplacian(grey(v), cv2.CV_32F)), images.block)
        for v in (images.before, images.after)
    )
    # The median block ignores the edit, which changes sharpness only locally.
    if float(np.median(after / (before + 1e-6))) >= SHARP:
        return images
    blurred = (
        replace(images, before=np.asarray(cv2.GaussianBlur(images.before, (0, 0), sigma)))
        for sigma in BLURS
    )
    return min((images, *blurred), key=lambda candidate: candidate.rest)


def unwarped(images: Aligned) -> Aligned | None:
    """Undo a smooth warp of the second image; return None if there is none.

    The flow is smoothed by FLOW_SMOOTHING and limited to MAX_FLOW. Both images come back slightly
    blurred.
    """
    height, width = images.inside.shape
    side = max(height, width)
    smooth = without_grain(images)
    needed = max(FLOW_MIN_SHARE * smooth.rest, FLOW_MIN_GAIN)
    if side < FLOW_MIN_SIDE or smooth.rest < needed:
        return None
    flow = np.zeros((height, width, 2), np.float32)
    for small_side in FLOW_SIDES:
        flow = _refine_flow(images, flow, min(1.0, small_side / side))
    pulled = replace(images, after=np.clip(_pull(images.after, flow), 0, 1))
    straight = without_grain(pulled)
    return straight if smooth.rest - straight.rest >= needed else None


def explained_by_motion(images: Aligned) -> Aligned:
    """Replace the first image by the second, with colours limited to those nearby in the first.

    What still differs are new colours, which no motion explains. A flow could shrink a drawn
    object to nothing, but it cannot explain where the object's colours came from.
    """
    import cv2

    images = without_grain(images)
    radius = max(1, round(FLOW_REACH * max(images.inside.shape)))
    around = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    least, most = cv2.erode(images.before, around), cv2.dilate(images.before, around)
    return replace(images, before=np.clip(images.after, least, most))


def without_grain(images: Aligned) -> Aligned:
    """Blur both images slightly and equally, which removes grain."""
    import cv2

    sigma = FLOW_BLUR * max(images.inside.shape)
    before, after = (
        np.asarray(cv2.GaussianBlur(v, (0, 0), sigma)) for v in (images.before, images.after)
    )
    return replace(images, before=before, after=after)


def _refine_flow(images: Aligned, flow: Values, scale: float) -> Values:
    """Refine the flow from `before` to `after` on copies at this scale."""
    import cv2

    height, width = images.inside.shape
    size = (max(16, round(width * scale)), max(16, round(height * scale)))
    side = max(size)
    ratio = np.array([width / size[0], height / size[1]], np.float32)
    x, y = (
        cv2.resize(grey(v), size, interpolation=cv2.INTER_AREA)
        for v in (images.before, images.after)
    )
    small = cv2.resize(flow, size) / ratio
    y = _pull(y, small)
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    before, after = ((255 * np.clip(v, 0, 1)).astype(np.uint8) for v in (x, y))
    step = search.calc(before, after, cast(Any, None))
    error = cv2.GaussianBlur(np.abs(_pull(y, step) - x), (0, 0), side / 85)
    trust = 1 / (1 + np.square(error / FLOW_DOUBT))
    weights, weighted = (
        cv2.GaussianBlur(v, (0, 0), FLOW_SMOOTHING * side) for v in (trust, step * trust[..., None])
    )
    small += weighted / (weights[..., None] + 1e-6)
    length = np.linalg.norm(small, axis=2, keepdims=True)
    small *= np.minimum(1, MAX_FLOW * side / (length + 1e-6))
    enlarged: Values = cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC) * ratio
    return enlarged


def _pull(values: Values, flow: Values) -> Values:
    """Return the image with every pixel taken from where the flow points."""
    import cv2

    height, width = values.shape[:2]
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    pulled = cv2.remap(
        values,
        x + flow[..., 0],
        y + flow[..., 1],
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return np.asarray(pulled)


def per_block(values: Values, block: int) -> Floats:
    """Return the sum of each block; the last row and column of blocks may be smaller."""
    rows, columns = (np.arange(0, side, block) for side in values.shape)
    sums = np.add.reduceat(np.add.reduceat(values, rows, axis=0), columns, axis=1)
    return sums.astype(np.float64)


Values: TypeAlias = npt.NDArray[np.float32]
Floats: TypeAlias = npt.NDArray[np.float64]

# Registration uses a copy of this side, and corrects at most this zoom, shift and skew.
REGISTER_SIDE = 256
MAX_ZOOM = 1.12
MAX_SHIFT = 0.12  # of the longer side
MAX_SKEW = 0.02
ZOOMS = (1.0, 0.98, 1.02, 0.96, 1.04, 0.94, 1.06, 0.92, 1.08)
SMOOTHING = 5
SURE_CORRELATION = 0.98  # above this, no second search is needed
NEARBY = 0.5  # pixels of the small copy
# cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, iterations, precision
_ECC_CRITERIA = (3, 50, 1e-5)


def likely_warps(x: Values, y: Values) -> list[Floats]:
    """Return up to two likely affine warps, which map points of `x` to points of `y`."""
    import cv2

    height, width = x.shape[:2]
    scale = min(1.0, REGISTER_SIDE / max(height, width))
    size = (max(8, round(width * scale)), max(8, round(height * scale)))
    small_x, small_y = (cv2.resize(grey(v), size, interpolation=cv2.INTER_AREA) for v in (x, y))
    if np.array_equal(small_x, small_y):
        return []
    everywhere = np.ones_like(small_y, np.uint8)
    warps = []
    # findTransformECC finds only the nearest maximum. Start it from no warp and, if the images
    # still differ, from the best of several zooms.
    for find_start in (_no_warp, _best_zoom):
        start = find_start(small_x, small_y, size)
        if find_start is _best_zoom and np.abs(start - np.eye(2, 3)).max() < NEARBY:
            break  # the search would find the same maximum again
        agreement: float = 0.0
        try:
            agreement, warp = cv2.findTransformECC(
                small_x,
                small_y,
                start.copy(),
                cv2.MOTION_AFFINE,
                _ECC_CRITERIA,
                everywhere,
                SMOOTHING,
            )
        except cv2.error:
            warp = start  # it did not converge
        if not _is_identity(warp) and _is_plausible(warp, size):
            warps.append(_rescaled(warp.astype(np.float64), (width / size[0], height / size[1])))
        if agreement > SURE_CORRELATION:
            break
    return warps


def grey(values: Values) -> Values:
    """Return the mean of the three channels, six times as fast as numpy's mean."""
    mean: Values = values[..., 0] + values[..., 1]
    mean += values[..., 2]
    mean *= np.float32(1 / 3)
    return mean


def _no_warp(x: Values, y: Values, size: tuple[int, int]) -> Values:
    return np.eye(2, 3, dtype=np.float32)


def _best_zoom(x: Values, y: Values, size: tuple[int, int]) -> Values:
    """Return the warp with the best phase correlation: a zoom of ZOOMS, and its shift."""
    import cv2

    window = cv2.createHanningWindow(size, cv2.CV_32F)
    middle = np.array(size) / 2
    best, response = np.eye(2, 3, dtype=np.float32), -1.0
    for zoom in ZOOMS:
        warp = np.column_stack([np.eye(2) * zoom, middle * (1 - zoom)]).astype(np.float32)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        zoomed = cv2.warpAffine(y, warp, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
        # A copy, because OpenCV 5.0 multiplies the window into the array.
        shift, agreement = cv2.phaseCorrelate(x.copy(), zoomed, window)
        if agreement > response:
            warp[:, 2] += zoom * np.array(shift, np.float32)
            best, response = warp, agreement
    return best


def _rescaled(warp: Floats, ratio: tuple[float, float]) -> Floats:
    """Convert the warp of a small copy to the full size; pixel centres are at .5."""
    scale, half = np.array(ratio), np.array([0.5, 0.5])
    linear = warp[:, :2] * scale[:, None] / scale[None, :]
    shift = (warp[:, 2] + half - warp[:, :2] @ half) * scale
    return np.column_stack([linear, shift + linear @ half - half])


def _is_identity(warp: npt.NDArray[Any]) -> bool:
    """Return True if the warp moves every point by less than 0.05 pixels of the small copy."""
    off = np.abs(warp - np.eye(2, 3))
    return bool((off[:, :2].sum(axis=1) * REGISTER_SIDE + off[:, 2]).max() < 0.05)


def _is_plausible(warp: npt.NDArray[Any], size: tuple[int, int]) -> bool:
    zooms, skews = (warp[0, 0], warp[1, 1]), (warp[0, 1], warp[1, 0])
    middle = np.array([size[0] / 2, size[1] / 2])
    moved = warp[:, :2] @ middle + warp[:, 2] - middle
    return (
        all(1 / MAX_ZOOM < zoom < MAX_ZOOM for zoom in zooms)
        and all(abs(skew) < MAX_SKEW for skew in skews)
        and bool(np.abs(moved).max() < MAX_SHIFT * max(size))
    )
