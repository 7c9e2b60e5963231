"""Changes of the whole image that may come with an edit: light, noise, motion, JPEG."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image

from evaluation.alignment import Floats
from evaluation.images import EncodedImage, encode_jpeg

Drift = Callable[[Image.Image], Image.Image]
SEED = 5


def as_jpeg(image: Image.Image, quality: int) -> Image.Image:
    return EncodedImage.from_bytes(encode_jpeg(image, quality)).decoded


def noisy(image: Image.Image, strength: float) -> Image.Image:
    random = np.random.default_rng(SEED)
    return _image(_array(image) + random.normal(0, strength, (*image.size[::-1], 3)))


def lit(
    image: Image.Image, gain: float = 1.0, offset: tuple[int, int, int] = (0, 0, 0)
) -> Image.Image:
    return _image(gain * _array(image) + np.array(offset))


def wobbly(
    image: Image.Image, strength: float, smooth: float = 32, seed: int = SEED
) -> Image.Image:
    """Warp the image smoothly as if redrawn; `strength` is the standard deviation in pixels."""
    import cv2

    width, height = image.size
    random = np.random.default_rng(seed)
    flow = []
    for _ in range(2):
        field = cv2.GaussianBlur(random.normal(size=(height, width)), (0, 0), smooth)
        flow.append(field * strength / field.std())
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    xs, ys = ((a + b).astype(np.float32) for a, b in zip((x, y), flow, strict=True))
    edge = cv2.BORDER_REFLECT
    return Image.fromarray(cv2.remap(np.asarray(image), xs, ys, cv2.INTER_CUBIC, borderMode=edge))


def moved(image: Image.Image, right: float = 0, down: float = 0, zoom: float = 1.0) -> Image.Image:
    """Shift and zoom the image as if the camera had moved; new pixels get the image's mean colour."""
    middle = np.array(image.size) / 2
    shift = middle - (middle + np.array([right, down])) / zoom
    red, green, blue = (int(value) for value in _array(image).mean(axis=(0, 1)))
    return image.transform(
        image.size,
        Image.Transform.AFFINE,
        (1 / zoom, 0, shift[0], 0, 1 / zoom, shift[1]),
        Image.Resampling.BICUBIC,
        fillcolor=(red, green, blue),
    )


def _array(image: Image.Image) -> Floats:
    return np.asarray(image, dtype=np.float64)


def _image(values: Floats) -> Image.Image:
    return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8))
