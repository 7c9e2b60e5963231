"""The neural eraser: edits by rule, but what it takes away a network paints over.

MI-GAN (Sargsyan et al., ICCV 2023; code and weights MIT) invents what was behind the thing.
It is an honest editor with a real network's faults that every machine can run.
"""

from __future__ import annotations

import math
import threading
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from evaluation import weights
from evaluation.editors.base import Beside
from evaluation.editors.instructions import Instruction, Mask, follow, rim, widened
from evaluation.editors.reference import RuleEditor
from evaluation.images import Picture

#: Of a larger picture the network is shown the part around the hole: it looks at no more of it
#: than that, but holds all it is given several times.
LARGE_PIXELS = 2_000_000
#: Of a part larger than the first it is shown a copy of the second: it paints 512 x 512 pixels in
#: any case, but a hole across ten megapixels took 3.2 GB of a worker. What it invents for the
#: copy is another guess than for the whole, as for any other part of it.
MOST_PIXELS, COPY_PIXELS = 1_500_000, 600_000


class NeuralEraser(RuleEditor):
    """Draws, tints and turns like every yardstick; erases with MI-GAN. It needs no torch."""

    weights = "neural-eraser"
    queue = "gpu"  # a second of a processor for each edit: calls in flight would wait for it

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a network of OpenCV's holds one picture at a time

    def answer(
        self, picture: Picture, instruction: Instruction, seed: int, beside: Beside
    ) -> Picture:
        edited = follow(instruction, picture.image, beside.annotations, self.paint_over)
        return Picture.from_image(edited)

    def paint_over(self, image: Image.Image, mask: Mask) -> Image.Image:
        if not mask.any():
            return image
        box = _around(mask) if mask.size > LARGE_PIXELS else (0, 0, *image.size)
        left, top, right, bottom = box
        part, hole = image.crop(box), widened(mask[top:bottom, left:right], rim(image))
        result = image.copy()
        if mask.size > LARGE_PIXELS and hole.size > MOST_PIXELS:
            result.paste(self._painted_small(part, hole), (left, top), Image.fromarray(hole))
        else:
            result.paste(self._painted(part, hole), (left, top))
        return result

    def _painted_small(self, image: Image.Image, hole: Mask) -> Image.Image:
        """Paint a smaller copy, and return it at the picture's size; only the hole is of use."""
        share = math.sqrt(COPY_PIXELS / hole.size)
        size = max(1, int(image.width * share)), max(1, int(image.height * share))
        covers = Image.fromarray(hole).convert("L").resize(size, Image.Resampling.BOX)
        painted = self._painted(
            image.resize(size, Image.Resampling.LANCZOS), np.asarray(covers) > 0
        )
        return painted.resize(image.size, Image.Resampling.BICUBIC)

    def _painted(self, image: Image.Image, hole: Mask) -> Image.Image:
        # The network takes 0 for a hole and leaves every other pixel as it is.
        kept = np.where(hole, 0, 255).astype(np.uint8)
        pixels = np.asarray(image).transpose(2, 0, 1)
        with self._lock:
            self._network.setInput(np.ascontiguousarray(pixels[None]), "image")
            self._network.setInput(kept[None, None], "mask")
            painted = self._network.forward()[0]
        return Image.fromarray(np.ascontiguousarray(painted.transpose(1, 2, 0)))

    @cached_property
    def _network(self) -> Any:
        import cv2

        file, _ = weights.locate(self.weights)
        return cv2.dnn.readNetFromONNX(np.frombuffer(file.read_bytes()[8:], np.uint8))


def _around(mask: Mask) -> tuple[int, int, int, int]:
    """The hole's box, as much again on every side, within the picture."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    left, right = int(columns[0]), int(columns[-1]) + 1
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    more = max(right - left, bottom - top)
    height, width = mask.shape
    return (
        max(0, left - more),
        max(0, top - more),
        min(width, right + more),
        min(height, bottom + more),
    )
