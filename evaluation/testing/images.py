"""Small generated images."""

import io

import numpy as np
from PIL import Image


def gradient(width: int, height: int) -> Image.Image:
    """Return an image in which all rows, columns and corners differ."""
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack(
        [255 * x / width, 255 * y / height, 255 * (x + 2 * y) / (width + 2 * height)], -1
    )
    return Image.fromarray(pixels.astype(np.uint8), "RGB")


def busy(width: int, height: int, seed: int = 0) -> Image.Image:
    """Return an image with structure at every scale; each seed gives another image."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (width, height))
    for side, share in ((4, 1.0), (16, 0.5), (64, 0.3)):
        cells = Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8), "RGB")
        image = Image.blend(image, cells.resize((width, height), Image.Resampling.BICUBIC), share)
    return image


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()
