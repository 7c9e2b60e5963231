"""The neural eraser: edits by fixed rules, but removes objects with an inpainting network.

MI-GAN (Sargsyan et al., ICCV 2023; code and weights MIT) paints a background over the object. So
every machine can run an honest editor that has the faults of a real network.
"""

from __future__ import annotations

import math
import threading
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from evaluation import weights
from evaluation.editors.base import EditContext
from evaluation.editors.instructions import Instruction, Mask, follow, hole_margin, widened
from evaluation.editors.reference import RuleEditor
from evaluation.images import EncodedImage

#: An image above LARGE_PIXELS is cropped to the surroundings of the hole. The network uses nothing
#: else, but would keep several copies of the whole image in memory.
LARGE_PIXELS = 2_000_000
#: A crop with more pixels than the first number is reduced to the second. The network paints
#: 512 x 512 pixels in any case, but would take 3.2 GB for a hole across ten megapixels.
MAX_CROP_PIXELS, REDUCED_PIXELS = 1_500_000, 600_000


class NeuralEraser(RuleEditor):
    """Edits like every reference editor, but erases with MI-GAN. It needs no torch."""

    weights = "neural-eraser"
    queue = "gpu"  # each edit takes a second of processor time

    def __init__(self) -> None:
        self._lock = threading.Lock()  # OpenCV's network processes one image at a time

    def answer(
        self, image: EncodedImage, instruction: Instruction, seed: int, context: EditContext
    ) -> EncodedImage:
        edited = follow(instruction, image.decoded, context.annotations, self.paint_over)
        return EncodedImage.from_image(edited)

    def paint_over(self, image: Image.Image, mask: Mask) -> Image.Image:
        if not mask.any():
            return image
        box = _around(mask) if mask.size > LARGE_PIXELS else (0, 0, *image.size)
        left, top, right, bottom = box
        crop, hole = image.crop(box), widened(mask[top:bottom, left:right], hole_margin(image))
        result = image.copy()
        if mask.size > LARGE_PIXELS and hole.size > MAX_CROP_PIXELS:
            result.paste(self._painted_small(crop, hole), (left, top), Image.fromarray(hole))
        else:
            result.paste(self._painted(crop, hole), (left, top))
        return result

    def _painted_small(self, image: Image.Image, hole: Mask) -> Image.Image:
        """Paint a reduced copy and return it at full size; only the hole is used."""
        scale = math.sqrt(REDUCED_PIXELS / hole.size)
        size = max(1, int(image.width * scale)), max(1, int(image.height * scale))
        coverage = Image.fromarray(hole).convert("L").resize(size, Image.Resampling.BOX)
        painted = self._painted(
            image.resize(size, Image.Resampling.LANCZOS), np.asarray(coverage) > 0
        )
        return painted.resize(image.size, Image.Resampling.BICUBIC)

    def _painted(self, image: Image.Image, hole: Mask) -> Image.Image:
        # The network fills pixels with mask 0 and leaves all others unchanged.
        outside = np.where(hole, 0, 255).astype(np.uint8)
        pixels = np.asarray(image).transpose(2, 0, 1)
        with self._lock:
            self._network.setInput(np.ascontiguousarray(pixels[None]), "image")
            self._network.setInput(outside[None, None], "mask")
            painted = self._network.forward()[0]
        return Image.fromarray(np.ascontiguousarray(painted.transpose(1, 2, 0)))

    @cached_property
    def _network(self) -> Any:
        import cv2

        file, _ = weights.locate(self.weights)
        return cv2.dnn.readNetFromONNX(np.frombuffer(file.read_bytes()[8:], np.uint8))


def _around(mask: Mask) -> tuple[int, int, int, int]:
    """Return the hole's bounding box, extended by its longer side, within the image."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    left, right = int(columns[0]), int(columns[-1]) + 1
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    margin = max(right - left, bottom - top)
    height, width = mask.shape
    return (
        max(0, left - margin),
        max(0, top - margin),
        min(width, right + margin),
        min(height, bottom + margin),
    )
