"""Little drawings that the reference editors add to pictures, each in its own place.

A drawing is an SVG file in this folder. Where it goes is a rule of the object
alone, so that "remove the hat" finds the place without seeing the hat.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

Box: TypeAlias = tuple[int, int, int, int]
Mask: TypeAlias = npt.NDArray[np.uint8]

# A drawing must stand out from what it covers: mean absolute difference, of 255.
CONTRAST = 70
LIGHTER, DARKER = 255, 0


@dataclass(frozen=True)
class Place:
    """The drawing's centre as a share of the picture's width and height; its width as a
    share of the shorter side; the words people use for it."""

    x: float
    y: float
    width: float
    words: tuple[str, ...]


DRAWINGS = {
    # Worn things: a portrait has its eyes above the middle.
    "glasses": Place(0.50, 0.33, 0.54, ("glasses", "eyeglasses", "spectacles")),
    "sunglasses": Place(0.50, 0.33, 0.50, ("sunglasses", "sun glasses", "shades")),
    "hat": Place(0.50, 0.14, 0.62, ("hat", "straw hat")),
    "cap": Place(0.50, 0.15, 0.52, ("cap", "baseball cap")),
    "crown": Place(0.50, 0.12, 0.44, ("crown", "tiara")),
    "headphones": Place(0.50, 0.27, 0.58, ("headphones", "headset")),
    "earrings": Place(0.50, 0.45, 0.60, ("earrings", "earring", "hoops")),
    "necklace": Place(0.50, 0.68, 0.56, ("necklace", "pearls")),
    "scarf": Place(0.50, 0.70, 0.56, ("scarf", "shawl")),
    "bow-tie": Place(0.50, 0.66, 0.40, ("bow tie", "bow-tie", "bowtie")),
    "moustache": Place(0.50, 0.48, 0.50, ("moustache", "mustache")),
    "flower": Place(0.70, 0.18, 0.27, ("flower", "rose")),
    # Things in a scene: on the floor, on a wall, in the air.
    "chair": Place(0.20, 0.68, 0.32, ("chair", "stool")),
    "ball": Place(0.50, 0.80, 0.28, ("ball",)),
    "potted-plant": Place(0.82, 0.68, 0.34, ("potted plant", "plant", "flower pot", "flowerpot")),
    "book": Place(0.50, 0.82, 0.48, ("book",)),
    "cup": Place(0.80, 0.81, 0.34, ("cup", "mug", "teacup", "cup of coffee")),
    "lamp": Place(0.18, 0.64, 0.33, ("lamp", "table lamp", "desk lamp")),
    "cat": Place(0.18, 0.72, 0.34, ("cat", "kitten")),
    "balloon": Place(0.84, 0.27, 0.25, ("balloon",)),
    "umbrella": Place(0.76, 0.56, 0.46, ("umbrella", "parasol")),
    "dog": Place(0.80, 0.70, 0.36, ("dog", "puppy")),
    "bird": Place(0.50, 0.20, 0.54, ("bird", "seagull", "gull")),
    "butterfly": Place(0.24, 0.24, 0.38, ("butterfly",)),
    "bicycle": Place(0.30, 0.74, 0.54, ("bicycle", "bike")),
    "clock": Place(0.80, 0.21, 0.32, ("clock", "wall clock")),
    "candle": Place(0.20, 0.62, 0.28, ("candle",)),
    "apple": Place(0.20, 0.79, 0.29, ("apple",)),
    "hot-air-balloon": Place(0.66, 0.28, 0.32, ("hot air balloon", "hot-air balloon")),
    "sailing-boat": Place(0.36, 0.64, 0.38, ("sailing boat", "sailboat", "sailing ship", "boat")),
    "teddy-bear": Place(0.52, 0.70, 0.38, ("teddy bear", "teddy", "toy bear")),
}


def draw(name: str, image: Image.Image) -> Image.Image:
    """The image with the drawing in its place, light or dark enough to be seen there."""
    box = box_of(name, image.size)
    drawing = _render(name, box[2] - box[0], box[3] - box[1])
    alpha = drawing[..., 3:].astype(np.float64) / 255
    ink = drawing[..., :3].astype(np.float64)
    below = np.asarray(image.crop(box), dtype=np.float64)

    def contrast(paint: npt.NDArray[np.float64]) -> float:
        return float((alpha * np.abs(paint - below)).sum() / (3 * alpha.sum()))

    # A black cat in the dark is drawn grey, a white cup on snow too.
    paints = [ink, 0.45 * ink + 0.55 * LIGHTER, 0.45 * ink + 0.55 * DARKER]
    paint = ink if contrast(ink) >= CONTRAST else max(paints, key=contrast)
    drawn = np.rint(alpha * paint + (1 - alpha) * below).astype(np.uint8)
    result = image.copy()
    result.paste(Image.fromarray(drawn), box[:2])
    return result


def mask(name: str, size: tuple[int, int]) -> tuple[Mask, Box]:
    """The pixels the drawing covers (255) within its box, in a picture of that size."""
    box = box_of(name, size)
    alpha = _render(name, box[2] - box[0], box[3] - box[1])[..., 3]
    return np.where(alpha > 0, 255, 0).astype(np.uint8), box


def box_of(name: str, size: tuple[int, int]) -> Box:
    """Where the drawing goes in a picture of that size: left, upper, right, lower."""
    place = DRAWINGS[name]
    aspect = _aspect(name)
    # An extreme format gives a smaller drawing rather than one that leaves the picture.
    width = min(place.width * min(size), 0.9 * size[0], 0.9 * size[1] * aspect)
    wide, high = max(1, round(width)), max(1, round(width / aspect))
    left = min(max(round(place.x * size[0] - wide / 2), 0), size[0] - wide)
    upper = min(max(round(place.y * size[1] - high / 2), 0), size[1] - high)
    return left, upper, left + wide, upper + high


@lru_cache(maxsize=64)
def _render(name: str, width: int, height: int) -> Mask:
    import resvg_py

    svg = (Path(__file__).parent / f"{name}.svg").read_text(encoding="utf-8")
    png = resvg_py.svg_to_bytes(svg_string=svg, width=width, height=height)
    rendered = Image.open(io.BytesIO(bytes(png)), formats=("PNG",)).convert("RGBA")
    # resvg keeps the aspect ratio, so rounding can leave one side a pixel short.
    return np.asarray(
        rendered.resize((width, height)) if rendered.size != (width, height) else rendered
    )


@lru_cache(maxsize=64)
def _aspect(name: str) -> float:
    svg = (Path(__file__).parent / f"{name}.svg").read_text(encoding="utf-8")
    _, _, width, height = svg.partition('viewBox="')[2].partition('"')[0].split()
    return float(width) / float(height)
