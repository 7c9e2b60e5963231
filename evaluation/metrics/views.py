"""Views of an image that parts of the headline metric compare, and the alignment of images.

The views of an image are the features of its patches, its colours and its fine detail. Each view is
computed once. A restored image is first aligned with its source if a shift, zoom or skew explains
enough of the difference.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from evaluation.alignment import Aligned, likely_warps, moved
from evaluation.metrics.base import CELLS, Box, Mask, Subject

Floats: TypeAlias = NDArray[np.float64]
#: The features of each patch by layer (rows, columns, 384), of unit length.
Tokens: TypeAlias = dict[int, NDArray[np.float32]]

#: The layers of DINOv2 that represent contours and objects.
SHAPE_LAYER, OBJECT_LAYER = 8, 12
# A patch may move by up to this many patches without counting as changed.
REACH = 1
# A cell counts if more than the first share of it is inside the frame; a window counts if more than
# the second share of its cells counts.
INSIDE, COUNTING = 0.98, 0.6
LAB_SIDE = 128
# Rows converted to floats at a time.
ROWS = 64
# Fine detail: the standard deviations of two blurs, for an image with this longer side.
BANDS_SIDE, FINE, COARSE = 512, 0.7, 1.4
# Registration (alignment): the largest and smallest side of the compared copies, the side of
# blocks.
SIDE, MIN_SIDE, BLOCK = 256, 16, 16
# A warp is applied if it leaves less than this share of the difference between the images.
LARGEST_REMAINDER = 0.9


class View:
    """The views of one image; each is computed once."""

    def __init__(self, image: Image.Image, tokens: Tokens) -> None:
        self.decoded, self.tokens = image, tokens

    @cached_property
    def lab(self) -> Floats:
        """The image in CIELAB, averaged to 128 x 128."""
        import cv2
        from skimage.color import rgb2lab

        size = (LAB_SIDE, LAB_SIDE)
        # One channel at a time, because a large image as floats takes too much memory.
        small = [
            cv2.resize(np.asarray(channel, np.float32), size, interpolation=cv2.INTER_AREA)
            for channel in self.decoded.split()
        ]
        return np.asarray(rgb2lab(np.stack(small, axis=-1).astype(np.float64) / 255))

    @cached_property
    def bands(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The finest and the next coarser detail, by cell, in grey levels."""
        import cv2

        values = np.asarray(self.decoded)
        grey = np.empty(values.shape[:2], np.float32)
        for top in range(0, len(values), ROWS):
            rows = values[top : top + ROWS].astype(np.float32)
            grey[top : top + ROWS] = cv2.cvtColor(rows, cv2.COLOR_RGB2GRAY)
        del values
        scale = max(1.0, max(self.decoded.size) / BANDS_SIDE)
        fine, coarse = (cv2.GaussianBlur(grey, (0, 0), sigma * scale) for sigma in (FINE, COARSE))
        # In place, so that few arrays of a large image are in memory at a time.
        finest, finer = (
            cv2.resize(cv2.absdiff(one, other, one), (CELLS, CELLS), interpolation=cv2.INTER_AREA)
            for one, other in ((grey, fine), (fine, coarse))
        )
        return finest, finer


@dataclass
class Source:
    """A source image with the parts' measurements of it."""

    view: View
    subject: Subject
    #: Each part's measurements of the source; None if the part does not apply.
    prepared: dict[str, Any] = field(default_factory=dict)


@dataclass
class Comparison:
    """A source and one restored image at the source's size."""

    source: Source
    #: The restored image unaligned, for faces and text.
    restored: Image.Image
    #: The restored image aligned with the source.
    registered: View
    #: The share of each cell that is inside the aligned image.
    inside: Floats
    #: The share of the frame that was cut off or invented.
    reframed: float

    def counts(self, rows: int, columns: int) -> Mask:
        """Return which cells of a grid are inside the aligned image."""
        import cv2

        size = (columns, rows)
        cells = cv2.resize(self.inside.astype(np.float32), size, interpolation=cv2.INTER_AREA)
        return np.asarray(cells > INSIDE)

    @cached_property
    def changes(self) -> dict[int, Floats]:
        """The dissimilarity of each patch, by layer."""
        before, after = self.source.view.tokens, self.registered.tokens
        return {layer: dissimilarity(before, after, layer) for layer in (SHAPE_LAYER, OBJECT_LAYER)}

    @cached_property
    def colour_difference(self) -> Floats:
        """The CIEDE2000 difference of each cell, 128 x 128."""
        from skimage.color import deltaE_ciede2000

        return np.asarray(deltaE_ciede2000(self.source.view.lab, self.registered.lab))


def harmless_copies(image: Image.Image) -> list[Image.Image]:
    """Return copies without visible damage: grain of four grey levels, blur, JPEG 85."""
    grainy = np.array(image)
    # The legacy generator, because numpy guarantees that its numbers never change.
    random = np.random.RandomState(7)
    for top in range(0, image.height, ROWS):
        rows = grainy[top : top + ROWS]
        rows[:] = np.clip(np.rint(rows + random.normal(0, 4, rows.shape)), 0, 255)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=85)
    return [
        Image.fromarray(grainy),
        image.filter(ImageFilter.GaussianBlur(0.7)),
        Image.open(stream).convert("RGB"),
    ]


def dissimilarity(before: Tokens, after: Tokens, layer: int) -> Floats:
    """Return each patch's dissimilarity: 1 - its best cosine with a nearby patch.

    Patches of `before` are sought in `after` and the other way round; the worse result counts.
    """
    one, other = before[layer], after[layer]
    rows, columns = one.shape[:2]
    lost, invented = np.full((2, rows, columns), -1, np.float32)
    for down in range(-REACH, REACH + 1):
        for right in range(-REACH, REACH + 1):
            here = np.s_[max(0, -down) : rows - down, max(0, -right) : columns - right]
            there = np.s_[max(0, down) : rows + down, max(0, right) : columns + right]
            # Patches beyond the border have similarity 0.
            alike = np.zeros((2, rows, columns), np.float32)
            alike[0][here] = np.einsum("ijk,ijk->ij", one[here], other[there])
            alike[1][there] = alike[0][here]
            np.maximum(lost, alike[0], out=lost)
            np.maximum(invented, alike[1], out=invented)
    return (1 - np.minimum(lost, invented)).astype(np.float64)


def window_means(values: NDArray[Any], side: int) -> Floats:
    """Return the mean of every square window with this side."""
    sums = np.pad(np.asarray(values, np.float64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    total = sums[side:, side:] - sums[:-side, side:] - sums[side:, :-side] + sums[:-side, :-side]
    means: Floats = total / side**2
    return means


def window_means_inside(values: NDArray[Any], counting: Mask, side: int) -> Floats:
    """Return the mean over the counting cells of each window; -inf if too few count."""
    share = window_means(counting, side)
    mean = window_means(np.where(counting, values, 0), side) / np.maximum(share, 1e-9)
    return np.where(share > COUNTING, mean, -np.inf)


def window_box(index: tuple[int, int], side: int, shape: tuple[int, ...]) -> Box:
    """Return the box of a window in a grid of this shape."""
    (row, column), (rows, columns) = index, shape[:2]
    return column / columns, row / rows, (column + side) / columns, (row + side) / rows


def register(
    source: Image.Image, restored: Image.Image
) -> tuple[Image.Image, NDArray[np.float64], float]:
    """Align the restored image with the source.

    Returns the aligned image, the share of each cell that is inside it, and the share of the frame
    that was cut off or invented.
    """
    before, after = _small(source), _small(restored)
    still = Aligned(before, after, np.ones(before.shape[:2], np.float32), block=BLOCK)
    best, least = None, still.rest
    for warp in likely_warps(before, after):
        rest = moved(still, warp).rest
        if rest < LARGEST_REMAINDER * least:
            best, least = warp, rest
    if best is None:
        return restored, np.ones((CELLS, CELLS)), 0.0
    return _warped(restored, _enlarged(best, source.size, before.shape))


def _small(image: Image.Image) -> NDArray[np.float32]:
    """Return a copy of at most 256 pixels a side, by box averages, with values from 0 to 1."""
    scale = min(1, SIDE / max(image.size))
    width, height = (max(MIN_SIDE, round(side * scale)) for side in image.size)
    small = image.resize((width, height), Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float32) / np.float32(255)


def _enlarged(warp: Floats, size: tuple[int, int], shape: tuple[int, ...]) -> Floats:
    """Scale the warp of a small copy to the whole image; pixel centres are at 0.5."""
    scale, half = np.array([size[0] / shape[1], size[1] / shape[0]]), np.array([0.5, 0.5])
    linear = warp[:, :2] * scale[:, None] / scale[None, :]
    shift = (warp[:, 2] + half - warp[:, :2] @ half) * scale
    return np.column_stack([linear, shift + linear @ half - half])


def _warped(image: Image.Image, warp: Floats) -> tuple[Image.Image, Floats, float]:
    """Return the warped image, the share of each cell inside it, and the share reframed."""
    import cv2

    back = cv2.WARP_INVERSE_MAP
    values = cv2.warpAffine(
        np.asarray(image),
        warp,
        image.size,
        flags=cv2.INTER_CUBIC | back,
        borderMode=cv2.BORDER_REPLICATE,
    )
    everywhere = np.ones(image.size[::-1], np.float32)
    inside = cv2.warpAffine(everywhere, warp, image.size, flags=cv2.INTER_LINEAR | back)
    used = cv2.warpAffine(everywhere, warp, image.size, flags=cv2.INTER_LINEAR)
    cells = cv2.resize(inside, (CELLS, CELLS), interpolation=cv2.INTER_AREA)
    reframed = float(max(1 - inside.mean(), 1 - used.mean()))
    return Image.fromarray(values), np.asarray(cells, dtype=np.float64), reframed
