"""Small drawings that the reference editors add to images, each in its place.

A drawing is an SVG file in this folder. Its place follows from the object and the image's
annotations alone, so that "remove the hat" locates the hat without detecting it.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation.content import placement
from evaluation.content.annotations import UNANNOTATED, Annotations

Box: TypeAlias = tuple[int, int, int, int]
Pixels: TypeAlias = npt.NDArray[np.uint8]

# A drawing must stand out from what it covers: mean absolute difference, of 255.
CONTRAST = 70
LIGHTER, DARKER = 255, 0


@dataclass(frozen=True)
class Place:
    """Place of a drawing in an image without annotations.

    Its centre is a share of the image's width and height, its width a share of the shorter side;
    `words` are its usual names.
    """

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
    "beanie": Place(0.50, 0.15, 0.48, ("beanie", "woolly hat", "bobble hat")),
    "party-hat": Place(0.50, 0.14, 0.28, ("party hat",)),
    "beard": Place(0.50, 0.56, 0.44, ("beard",)),
    "mask": Place(0.50, 0.50, 0.44, ("mask", "face mask")),
    "tie": Place(0.50, 0.78, 0.16, ("tie", "necktie")),
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
    "suitcase": Place(0.78, 0.78, 0.34, ("suitcase",)),
    "guitar": Place(0.16, 0.66, 0.20, ("guitar",)),
    "pumpkin": Place(0.50, 0.80, 0.32, ("pumpkin",)),
    "gift": Place(0.24, 0.78, 0.30, ("gift", "present", "gift box")),
    "vase": Place(0.80, 0.66, 0.26, ("vase",)),
    "bottle": Place(0.20, 0.64, 0.16, ("bottle",)),
    "picture-frame": Place(0.30, 0.24, 0.38, ("picture frame", "framed picture")),
    "sign": Place(0.70, 0.24, 0.40, ("sign",)),
    "kite": Place(0.26, 0.28, 0.26, ("kite",)),
    "airplane": Place(0.50, 0.20, 0.48, ("airplane", "aeroplane", "plane")),
    "cloud": Place(0.40, 0.18, 0.50, ("cloud",)),
    "moon": Place(0.78, 0.20, 0.26, ("moon",)),
    "rainbow": Place(0.50, 0.26, 0.80, ("rainbow",)),
    "duck": Place(0.60, 0.72, 0.28, ("duck",)),
}


def draw(name: str, image: Image.Image, places: Annotations = UNANNOTATED) -> Image.Image:
    """Return the image with the drawing in its place, in a visible brightness."""
    drawing, box = _placed(name, image.size, places)
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


def mask(
    name: str, size: tuple[int, int], places: Annotations = UNANNOTATED
) -> npt.NDArray[np.bool_]:
    """Return the pixels that the drawing covers in an image of that size."""
    drawing, (left, upper, right, lower) = _placed(name, size, places)
    covered = np.zeros((size[1], size[0]), bool)
    covered[upper:lower, left:right] = drawing[..., 3] > 0
    return covered


def _placed(name: str, size: tuple[int, int], places: Annotations) -> tuple[Pixels, Box]:
    """Return the visible part of the drawing and its box (left, upper, right, lower)."""
    spot = placement.spot(name, places, *size) or _without_annotations(name, size)
    turned = _render(name, max(1, round(spot.width)), max(1, round(spot.height)), spot.turn)
    left, upper = round(spot.x - turned.shape[1] / 2), round(spot.y - turned.shape[0] / 2)
    right, lower = left + turned.shape[1], upper + turned.shape[0]
    inside = (max(left, 0), max(upper, 0), min(right, size[0]), min(lower, size[1]))
    seen = turned[inside[1] - upper : inside[3] - upper, inside[0] - left : inside[2] - left]
    return seen, inside


def _without_annotations(name: str, size: tuple[int, int]) -> placement.Spot:
    place, shape = DRAWINGS[name], placement.aspect(name)
    # In an extreme format the drawing is smaller, so that it stays inside the image.
    wide = min(place.width * min(size), 0.9 * size[0], 0.9 * size[1] * shape)
    high = wide / shape
    x = min(max(place.x * size[0], wide / 2), size[0] - wide / 2)
    y = min(max(place.y * size[1], high / 2), size[1] - high / 2)
    return placement.Spot(x, y, wide, high)


@lru_cache(maxsize=128)
def _render(name: str, width: int, height: int, turn: float) -> Pixels:
    import resvg_py

    svg = (placement.DRAWINGS / f"{name}.svg").read_text(encoding="utf-8")
    png = resvg_py.svg_to_bytes(svg_string=svg, width=width, height=height)
    rendered = Image.open(io.BytesIO(bytes(png)), formats=("PNG",)).convert("RGBA")
    # resvg keeps the aspect ratio, so rounding can leave one side a pixel short.
    rendered = rendered.resize((width, height)) if rendered.size != (width, height) else rendered
    # Pillow turns counterclockwise.
    return np.asarray(rendered.rotate(-turn, Image.Resampling.BICUBIC, expand=True))
