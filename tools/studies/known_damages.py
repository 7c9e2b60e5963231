"""Known damages of shipped images, for the study of the headline metric and the example strips.

Harmless damages are invisible. Things are painted over or get another hue. Ladders increase one
damage step by step. Mild and strong damages are of kinds for which no constant of the metric was
tuned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter

from evaluation.content import catalog, sources
from evaluation.content.annotations import Box
from evaluation.images import EncodedImage, clean_wire
from evaluation.testing.drifts import lit, moved, wobbly
from evaluation.testing.twin import Damage, blur, jpeg, noise, zoom

SUITE, SIZE = "standard", 1024
# The margin around the box of an erased thing, as a share of the longer side.
MARGIN = 0.004
# The radius of inpainting, in pixels.
INPAINT_RADIUS = 5
# The turn of a hue, and the largest difference of hues within a thing, on a circle of 256 hues.
TURN, SAME_HUE = 85, 16
# The smallest saturation of a coloured pixel, of 255.
COLOURFUL = 60
MIDDLE: Box = (0.3, 0.3, 0.6, 0.6)


@dataclass(frozen=True)
class Thing:
    """A thing in a shipped image, with its name and box."""

    image: str
    word: str
    box: Box


#: Things at least a thirteenth of the image wide and high. The metric is known to miss smaller and
#: thinner things.
THINGS = (
    Thing("living-room", "the picture on the wall", (0.36, 0.17, 0.62, 0.39)),
    Thing("living-room", "the bookcase", (0.04, 0.28, 0.25, 0.71)),
    Thing("living-room", "the lampshade", (0.765, 0.305, 0.87, 0.40)),
    Thing("living-room", "a yellow cushion", (0.28, 0.45, 0.39, 0.59)),
    Thing("modern-living-room", "the television", (0.14, 0.43, 0.255, 0.59)),
    Thing("kitchen-shelf", "a pot", (0.43, 0.59, 0.62, 0.765)),
    Thing("kitchen-shelf", "a pile of bowls", (0.45, 0.295, 0.605, 0.43)),
    Thing("kitchen-shelf", "a yellow jug", (0.80, 0.24, 0.96, 0.43)),
    Thing("kitchen-shelf", "a red cup", (0.11, 0.635, 0.20, 0.75)),
    Thing("desk", "the keyboard", (0.23, 0.62, 0.64, 0.74)),
    Thing("desk", "a pot of pens", (0.79, 0.34, 0.91, 0.67)),
    Thing("bottles", "the green bottle", (0.105, 0.12, 0.29, 0.81)),
    Thing("bottles", "the orange bottle", (0.52, 0.43, 0.67, 0.85)),
    Thing("bottles", "the purple bottle", (0.69, 0.30, 0.89, 0.81)),
    Thing("fruit", "a pear", (0.705, 0.58, 0.95, 0.86)),
    Thing("fruit", "a banana", (0.0, 0.68, 0.31, 0.87)),
    Thing("toys", "a green block", (0.145, 0.235, 0.305, 0.42)),
    Thing("toys", "the red car", (0.50, 0.62, 0.81, 0.92)),
    Thing("teapot", "the teapot", (0.155, 0.18, 0.845, 0.70)),
    Thing("teapot", "two biscuits", (0.335, 0.74, 0.65, 0.90)),
    Thing("succulents", "a cactus", (0.415, 0.23, 0.61, 0.79)),
    Thing("jam-jars", "a jar of honey", (0.37, 0.32, 0.62, 0.81)),
    Thing("books", "a pear", (0.44, 0.07, 0.61, 0.42)),
    Thing("laid-table", "a napkin", (0.43, 0.52, 0.575, 0.68)),
    Thing("laid-table", "a roll of bread", (0.17, 0.32, 0.36, 0.50)),
    Thing("street-corner", "the awning", (0.65, 0.36, 1.0, 0.50)),
    Thing("tulips", "a tulip on the table", (0.65, 0.775, 0.86, 0.92)),
    Thing("concert-poster", "a vase of flowers", (0.13, 0.41, 0.285, 0.70)),
)
#: The things of one colour.
COLOURED = tuple(
    thing
    for thing in THINGS
    if thing.word
    in {
        "a yellow cushion",
        "a pot",
        "a yellow jug",
        "a red cup",
        "the green bottle",
        "the orange bottle",
        "the purple bottle",
        "a pear",
        "a banana",
        "a green block",
        "the red car",
        "the teapot",
        "a jar of honey",
        "a napkin",
    }
)


def shipped(slug: str, size: int = SIZE) -> Image.Image:
    """Return an image of the standard suite at this size."""
    image = catalog.suite(SUITE).image_by_slug[slug]
    return sources.prepare(EncodedImage.from_bytes(sources.original(image.origin)).decoded, size)


def erased(image: Image.Image, box: Box) -> Image.Image:
    """Inpaint a box from its surroundings."""
    import cv2

    values = np.array(image)
    mask = np.zeros(values.shape[:2], np.uint8)
    mask[_inside(image, box, MARGIN)] = 255
    return Image.fromarray(np.asarray(cv2.inpaint(values, mask, INPAINT_RADIUS, cv2.INPAINT_TELEA)))


def turned_hue(image: Image.Image, box: Box, turn: int = TURN) -> Image.Image:
    """Turn the hue of those pixels in a box that have the colour of the box's middle."""
    values = np.array(image.convert("HSV"))
    part = values[_inside(image, box)]
    hue, saturation = part[..., 0].astype(int), part[..., 1]
    rows, columns = (slice(side // 4, -(side // 4)) for side in hue.shape)
    middle = hue[rows, columns][saturation[rows, columns] > COLOURFUL]
    # Hues are on a circle: the distance from 250 to 3 is 9.
    apart = np.abs((hue - int(np.median(middle)) + 128) % 256 - 128)
    matching = (apart < SAME_HUE) & (saturation > COLOURFUL)
    part[matching, 0] = (hue[matching] + turn) % 256
    return Image.fromarray(values, "HSV").convert("RGB")


def _inside(image: Image.Image, box: Box, margin: float = 0.0) -> tuple[slice, slice]:
    left, top, right, bottom = (
        side * length for side, length in zip(box, image.size * 2, strict=True)
    )
    more = margin * max(image.size)
    return (
        slice(max(0, round(top - more)), round(bottom + more)),
        slice(max(0, round(left - more)), round(right + more)),
    )


def resampled(share: float) -> Damage:
    """Make an image smaller and enlarge it again."""

    def damage(image: Image.Image) -> Image.Image:
        width, height = (max(1, round(side * share)) for side in image.size)
        small = image.resize((width, height), Image.Resampling.LANCZOS)
        return small.resize(image.size, Image.Resampling.BICUBIC)

    return damage


def smeared(image: Image.Image, box: Box = MIDDLE) -> Image.Image:
    """Blur a box strongly."""
    return _pasted(image, image.filter(ImageFilter.GaussianBlur(max(image.size) / 25)), box)


def bent(image: Image.Image, box: Box = MIDDLE, strength: float = 1 / 64) -> Image.Image:
    """Distort a box by `strength`, a share of the longer side."""
    longest = max(image.size)
    return _pasted(image, wobbly(image, longest * strength, smooth=longest / 40), box)


def _pasted(image: Image.Image, other: Image.Image, inside: Box) -> Image.Image:
    rows, columns = _inside(image, inside)
    box = (columns.start, rows.start, columns.stop, rows.stop)
    result = image.copy()
    result.paste(other.crop(box), box)
    return result


def blocky(image: Image.Image) -> Image.Image:
    """Pixelate an image to squares of 1/64 of its longer side."""
    step = max(image.size) // 64
    return image.reduce(step).resize(image.size, Image.Resampling.NEAREST)


def clean(image: Image.Image) -> Image.Image:
    return clean_wire(EncodedImage.from_image(image)).decoded


def in_grey(image: Image.Image) -> Image.Image:
    return image.convert("L").convert("RGB")


def posterised(image: Image.Image) -> Image.Image:
    return image.point(lambda value: value // 64 * 85)


HARMLESS: Mapping[str, Damage] = {
    "the clean wire": clean,
    "JPEG 85": jpeg(85),
    "JPEG 75": jpeg(75),
    "noise of 3 levels": noise(3),
    "blur of 0.7 px": blur(0.7),
    "shifted by 2 px": lambda image: moved(image, right=2, down=-1),
    "1 % zoomed in": zoom(0.01),
    "3 % lighter": lambda image: lit(image, 1.03),
}
LADDERS: Mapping[str, Damage] = {
    "JPEG 50": jpeg(50),
    "JPEG 20": jpeg(20),
    "JPEG 10": jpeg(10),
    "blur of 1 px": blur(1),
    "blur of 2 px": blur(2),
    "blur of 3 px": blur(3),
    "noise of 4 levels": noise(4),
    "noise of 8 levels": noise(8),
    "noise of 16 levels": noise(16),
    "a tenth lighter": lambda image: lit(image, 1.1),
    "a fifth lighter": lambda image: lit(image, 1.2),
    "2 % zoomed in": zoom(0.02),
    "6 % zoomed in": zoom(0.06),
    "10 % zoomed in": zoom(0.1),
}
MILD: Mapping[str, Damage] = {
    "a little more contrast": lambda image: ImageEnhance.Contrast(image).enhance(1.05),
    "a little more colour": lambda image: ImageEnhance.Color(image).enhance(1.1),
    "a touch warmer": lambda image: lit(image, offset=(3, 0, -3)),
    "a little sharpened": lambda image: image.filter(ImageFilter.UnsharpMask(1.5, 25, 0)),
    "a wobble of half a pixel": lambda image: wobbly(image, 0.5),
    "a tenth smaller and back": resampled(0.9),
}
STRONG: Mapping[str, Damage] = {
    "turned grey": in_grey,
    "four levels of each colour": posterised,
    "in blocks": blocky,
    "half of the contrast": lambda image: ImageEnhance.Contrast(image).enhance(0.5),
    "a colour cast": lambda image: lit(image, offset=(0, 40, 0)),
    "the middle smeared": smeared,
    "the middle bent": bent,
    "sharpened hard": lambda image: image.filter(ImageFilter.UnsharpMask(3, 300, 0)),
}
