"""Small drawings that the reference editors add to images.

The place of a drawing depends only on the object and the image's annotations
(evaluation.content.placement), so that "remove the hat" locates the hat without detecting it.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation.content import placement
from evaluation.content.annotations import UNANNOTATED, Annotations

Box: TypeAlias = tuple[int, int, int, int]
Pixels: TypeAlias = npt.NDArray[np.uint8]

# Smallest visible contrast: the mean absolute difference (of 255) between a drawing and the pixels
# under it.
CONTRAST = 70
LIGHTER, DARKER = 255, 0


def draw(name: str, image: Image.Image, places: Annotations = UNANNOTATED) -> Image.Image:
    """Return the image with the drawing in its place, lightened or darkened to be visible."""
    drawing, box = _placed(name, image.size, places)
    alpha = drawing[..., 3:].astype(np.float64) / 255
    ink = drawing[..., :3].astype(np.float64)
    below = np.asarray(image.crop(box), dtype=np.float64)

    def contrast(paint: npt.NDArray[np.float64]) -> float:
        return float((alpha * np.abs(paint - below)).sum() / (3 * alpha.sum()))

    # A black cat in the dark is drawn grey, and so is a white cup on snow.
    paints = [ink, 0.45 * ink + 0.55 * LIGHTER, 0.45 * ink + 0.55 * DARKER]
    paint = ink if contrast(ink) >= CONTRAST else max(paints, key=contrast)
    drawn = np.rint(alpha * paint + (1 - alpha) * below).astype(np.uint8)
    result = image.copy()
    result.paste(Image.fromarray(drawn), box[:2])
    return result


def mask(
    name: str, size: tuple[int, int], places: Annotations = UNANNOTATED
) -> npt.NDArray[np.bool_]:
    """Return the pixels that the drawing covers in an image of this size."""
    drawing, (left, upper, right, lower) = _placed(name, size, places)
    covered = np.zeros((size[1], size[0]), bool)
    covered[upper:lower, left:right] = drawing[..., 3] > 0
    return covered


def _placed(name: str, size: tuple[int, int], places: Annotations) -> tuple[Pixels, Box]:
    """Return the visible part of the drawing and its box (left, upper, right, lower)."""
    spot = placement.spot(name, places, *size) or placement.usual_spot(name, *size)
    turned = _render(name, max(1, round(spot.width)), max(1, round(spot.height)), spot.turn)
    left, upper = round(spot.x - turned.shape[1] / 2), round(spot.y - turned.shape[0] / 2)
    right, lower = left + turned.shape[1], upper + turned.shape[0]
    box = (max(left, 0), max(upper, 0), min(right, size[0]), min(lower, size[1]))
    visible = turned[box[1] - upper : box[3] - upper, box[0] - left : box[2] - left]
    return visible, box


@lru_cache(maxsize=128)
def _render(name: str, width: int, height: int, turn: float) -> Pixels:
    import resvg_py

    svg = (placement.DRAWINGS / f"{name}.svg").read_text(encoding="utf-8")
    png = resvg_py.svg_to_bytes(svg_string=svg, width=width, height=height)
    rendered = Image.open(io.BytesIO(bytes(png)), formats=("PNG",)).convert("RGBA")
    # resvg keeps the aspect ratio, so rounding can leave one side a pixel short.
    rendered = rendered.resize((width, height)) if rendered.size != (width, height) else rendered
    # Pillow rotates counterclockwise.
    return np.asarray(rendered.rotate(-turn, Image.Resampling.BICUBIC, expand=True))
