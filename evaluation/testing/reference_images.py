"""The images behind the golden table of metric values: an astronaut, and four changes of it."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from skimage import data

ASTRONAUT = data.astronaut()
_NOISE = np.random.default_rng(0).normal(0, 20, ASTRONAUT.shape)

CHANGED = {
    "noise": np.rint(np.clip(ASTRONAUT + _NOISE, 0, 255)).astype(np.uint8),
    "flip": ASTRONAUT[:, ::-1],
    "card": np.full_like(ASTRONAUT, np.rint(ASTRONAUT.mean(axis=(0, 1))).astype(np.uint8)),
    "shift": np.roll(ASTRONAUT, 4, axis=1),
}


def as_image(array: NDArray[np.uint8]) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(array))


def small(width: int = 192, height: int = 176, seed: int = 0) -> Image.Image:
    """Return a crop of the astronaut, large enough for every metric."""
    rng = np.random.default_rng(seed)
    left, top = rng.integers(0, 512 - width), rng.integers(0, 512 - height)
    return as_image(ASTRONAUT[top : top + height, left : left + width])


def worn(image: Image.Image, strength: float, seed: int = 0) -> Image.Image:
    """Return the image with noise of this standard deviation."""
    values = np.asarray(image, dtype=float)
    noisy = values + np.random.default_rng(seed).normal(0, strength, values.shape)
    return as_image(np.rint(np.clip(noisy, 0, 255)).astype(np.uint8))
