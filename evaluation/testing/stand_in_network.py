"""A stand-in for DINOv2 that describes patches by their pixels, a thousand times faster.

Tests of runs, stores and pages need the headline metric, but not the metric's real network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evaluation.metrics.networks.dinov2 import AREA, PATCH
from evaluation.metrics.overall import Overall
from evaluation.metrics.views import OBJECT_LAYER, SHAPE_LAYER, Tokens

#: The method that the stand-in replaces.
REAL = Overall.tokens
# The side of a patch in pixels, after the image is reduced.
SIDE = 4


def stand_in_patches(images: Sequence[Image.Image]) -> list[Tokens]:
    """Return the vectors of each image's patches (of unit length), by layer of the network."""
    return [_patches(image) for image in images]


def _patches(image: Image.Image) -> Tokens:
    factor = math.sqrt(AREA / (image.width * image.height))
    columns, rows = (max(1, round(side * factor / PATCH)) for side in image.size)
    small = image.resize((columns * SIDE, rows * SIDE), Image.Resampling.BOX)
    pixels = np.asarray(small, dtype=np.float32) / np.float32(255)
    shapes = pixels.reshape(rows, SIDE, columns, SIDE, 3).transpose(0, 2, 1, 3, 4)
    shapes = shapes.reshape(rows, columns, -1)
    # The layer for objects sees each patch with its neighbours.
    padded = np.pad(shapes, ((1, 1), (1, 1), (0, 0)), mode="edge")
    around = [padded[down : down + rows, right : right + columns] for down, right in AROUND]
    return {
        SHAPE_LAYER: _unit(shapes),
        OBJECT_LAYER: _unit(np.concatenate([shapes, *around], axis=-1)),
    }


AROUND = ((0, 1), (1, 0), (1, 2), (2, 1))


def _unit(values: NDArray[np.float32]) -> NDArray[np.float32]:
    centred = values - np.float32(0.45)
    length = np.linalg.norm(centred, axis=-1, keepdims=True) + np.float32(1e-6)
    return np.asarray(centred / length, dtype=np.float32)
