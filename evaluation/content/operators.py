"""Edits made by the benchmark itself: exact flips and turns, and degradations.

The seven degradations are named after those in a study of the model Nano Banana 2 (docs/papers.md).
The study states no parameters, because its images had already been degraded by another study. So
each degradation is defined here as a typical damage of that name. Lengths are fractions of the
longer side, so that the damage is the same at every size; comments give the value at 1024 pixels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation.images import EncodedImage, encode_jpeg

# rotate_90 turns clockwise; Pillow's ROTATE_90 turns counterclockwise.
OPERATORS = {
    "flip_horizontal": Image.Transpose.FLIP_LEFT_RIGHT,
    "flip_vertical": Image.Transpose.FLIP_TOP_BOTTOM,
    "rotate_90": Image.Transpose.ROTATE_270,
    "rotate_180": Image.Transpose.ROTATE_180,
    "rotate_270": Image.Transpose.ROTATE_90,
}
INVERSES = {
    "flip_horizontal": "flip_horizontal",
    "flip_vertical": "flip_vertical",
    "rotate_90": "rotate_270",
    "rotate_180": "rotate_180",
    "rotate_270": "rotate_90",
}
QUARTER_TURNS = frozenset({"rotate_90", "rotate_270"})


def apply(operator: str, image: Image.Image) -> Image.Image:
    """Move every pixel by the operator; quarter turns swap width and height."""
    return image.transpose(OPERATORS[operator])


#: The version of the degradations, part of their seed. Increase it with any change of results.
VERSION = 1
Values = npt.NDArray[np.float64]
Random = np.random.Generator
#: Luma weights of the channels (Rec. 601).
LIGHT = np.array([0.299, 0.587, 0.114])


@dataclass(frozen=True)
class Degradation:
    """A degradation: its title in the study, its description and its function.

    The function maps sRGB values in [0, 1]; the result is clipped.
    """

    name: str
    title: str
    words: str
    apply: Callable[[Values, Random], Values]


def degraded(name: str, image: EncodedImage, number: int) -> EncodedImage:
    """Degrade an image of trip `number`, reproducibly.

    The random values depend on the degradation, the trip's number and the image itself.
    """
    pixels = np.asarray(image.decoded)
    text = f"{name}/{VERSION}/{number}/{image.width}x{image.height}/".encode()
    digest = hashlib.sha256(text + pixels.tobytes()).digest()
    random = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    return EncodedImage.from_image(_image(DEGRADATIONS[name].apply(_values(image.decoded), random)))


# Building blocks of the degradations.


def _image(values: Values) -> Image.Image:
    return Image.fromarray(np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8))


def _values(image: Image.Image) -> Values:
    return np.asarray(image, dtype=np.float64) / 255


def _side(values: Values) -> int:
    return max(values.shape[:2])


def _blurred(values: Values, kernel: Values) -> Values:
    """Convolve with a kernel of sum 1; the border is mirrored."""
    from scipy.signal import fftconvolve  # here, because pages read suites without scipy

    high, wide = (side // 2 for side in kernel.shape)
    around = np.pad(values, ((high, high), (wide, wide), (0, 0)), mode="symmetric")
    return np.stack(
        [fftconvolve(around[..., channel], kernel, mode="valid") for channel in range(3)], axis=-1
    )


def _disc(radius: float) -> Values:
    """Return the kernel of a disc with a soft edge of one pixel."""
    reach = int(np.ceil(radius))
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disc = np.clip(radius + 0.5 - np.hypot(x, y), 0, 1)
    return np.asarray(disc / disc.sum())


def _line(length: float, angle: float) -> Values:
    """Return the kernel of an antialiased line through the middle."""
    reach = max(1, int(np.ceil(length / 2)))
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1].astype(np.float64)
    along = x * np.cos(angle) + y * np.sin(angle)
    across = -x * np.sin(angle) + y * np.cos(angle)
    line = np.clip(length / 2 + 0.5 - np.abs(along), 0, 1) * np.clip(1 - np.abs(across), 0, 1)
    return np.asarray(line / line.sum())


def _shrunk(values: Values, factor: int) -> Image.Image:
    image = _image(values)
    size = (max(1, image.width // factor), max(1, image.height // factor))
    return image.resize(size, Image.Resampling.BOX)


def _enlarged(image: Image.Image, like: Values) -> Values:
    return _values(image.resize((like.shape[1], like.shape[0]), Image.Resampling.BICUBIC))


def _jpeg(image: Image.Image, quality: int) -> Image.Image:
    return EncodedImage.from_bytes(encode_jpeg(image, quality)).decoded


def _grained(values: Values, sigma: float, random: Random) -> Values:
    """Add the same grain to all channels; `sigma` is in 8-bit levels."""
    return np.asarray(values + random.normal(0, sigma / 255, values.shape[:2])[..., None])


def _faded(values: Values, contrast: float, lift: float) -> Values:
    return np.asarray(lift + contrast * values)


def _scratched(
    values: Values, count: int, random: Random, *, upright: bool, light: float
) -> Values:
    """Add fine scratches: vertical from edge to edge, or short at random angles."""
    result = values.copy()
    high, wide = values.shape[:2]
    y, x = np.mgrid[0:high, 0:wide].astype(np.float64)
    thick = max(1.0, _side(values) / 700)
    for _ in range(count):
        left, top = random.uniform(0, wide), random.uniform(0, high)
        if upright:
            bent = left + wide / 200 * np.sin(
                y / high * random.uniform(2, 9) + random.uniform(0, 6)
            )
            cover = np.clip(thick - np.abs(x - bent), 0, 1)
        else:
            angle = random.uniform(0, np.pi)
            along = (x - left) * np.cos(angle) + (y - top) * np.sin(angle)
            across = -(x - left) * np.sin(angle) + (y - top) * np.cos(angle)
            reach = random.uniform(0.05, 0.25) * _side(values)
            cover = np.clip(thick - np.abs(across), 0, 1) * (np.abs(along) < reach)
        cover = (0.75 * cover)[..., None]
        result = result * (1 - cover) + light * cover
    return result


def _dusted(values: Values, count: int, random: Random) -> Values:
    """Add dark and bright specks of up to 1/250 of the longer side in diameter."""
    result = values.copy()
    high, wide = values.shape[:2]
    for _ in range(count):
        radius = random.uniform(0.5, max(1.0, _side(values) / 500))
        reach = int(np.ceil(radius)) + 1
        row, column = random.integers(0, high), random.integers(0, wide)
        top, left = max(0, row - reach), max(0, column - reach)
        part = result[top : row + reach + 1, left : column + reach + 1]
        y, x = np.mgrid[top : top + part.shape[0], left : left + part.shape[1]]
        cover = np.clip(radius + 0.5 - np.hypot(x - column, y - row), 0, 1)[..., None]
        part[...] = part * (1 - cover) + random.choice([0.1, 0.95]) * cover
    return result


def _vignetted(values: Values, share: float) -> Values:
    """Darken towards the corners, where `share` of the light is lost."""
    high, wide = values.shape[:2]
    y, x = np.mgrid[-1 : 1 : high * 1j, -1 : 1 : wide * 1j]
    return np.asarray(values * (1 - share * (x**2 + y**2) / 2)[..., None])


# The seven degradations.


def _defocus(values: Values, random: Random) -> Values:
    return _blurred(values, _disc(_side(values) / 128))  # a radius of 8


def _motion(values: Values, random: Random) -> Values:
    angle = random.uniform(0, np.pi)
    return _blurred(values, _line(_side(values) / 40, angle))  # a length of 26


def _zoom(values: Values, random: Random) -> Values:
    return _enlarged(_jpeg(_shrunk(values, 4), 75), values)


def _old_film(values: Values, random: Random) -> Values:
    soft = _blurred(values, _disc(_side(values) / 700))  # a radius of 1.5
    pale = _vignetted(_faded(soft, 0.72, 0.12), 0.25)
    grained = _grained(pale, 14, random)
    return _dusted(_scratched(grained, 5, random, upright=True, light=0.9), 40, random)


def _grey(values: Values) -> Values:
    return np.repeat((values @ LIGHT)[..., None], 3, axis=-1)


def _old_black_and_white(values: Values, random: Random) -> Values:
    soft = _blurred(_grey(values), _disc(_side(values) / 600))  # a radius of 1.7
    grained = _grained(_faded(soft, 0.6, 0.22), 10, random)
    return _dusted(_scratched(grained, 8, random, upright=False, light=0.92), 30, random)


#: Factors and offsets per channel of dyes that faded towards yellow.
DYES, PAPER = np.array([0.72, 0.60, 0.48]), np.array([0.24, 0.19, 0.13])


def _old_colour(values: Values, random: Random) -> Values:
    soft = _blurred(values, _disc(_side(values) / 600))
    paled = 0.6 * soft + 0.4 * _grey(soft)
    grained = _grained(paled * DYES + PAPER, 8, random)
    return _dusted(_scratched(grained, 6, random, upright=False, light=0.9), 25, random)


def _surveillance(values: Values, random: Random) -> Values:
    dim = 0.75 * (0.6 * values + 0.4 * _grey(values))
    small = _values(_shrunk(dim, 4))
    noisy = small + random.normal(0, 12 / 255, small.shape)
    return _enlarged(_jpeg(_image(noisy), 30), values)


DEGRADATIONS = {
    degradation.name: degradation
    for degradation in (
        Degradation(
            "defocus",
            "Defocus blur",
            "blurred with a disc of 1/128 of the longer side in radius",
            _defocus,
        ),
        Degradation(
            "motion",
            "Motion blur",
            "blurred along a line of 1/40 of the longer side, at a random angle",
            _motion,
        ),
        Degradation(
            "zoom",
            "Digital zoom",
            "shrunk to a quarter, saved as JPEG 75, enlarged again",
            _zoom,
        ),
        Degradation(
            "old-film",
            "Old film",
            "softened, contrast at 72 %, darker corners, grain of 14, five upright scratches, dust",
            _old_film,
        ),
        Degradation(
            "old-black-and-white",
            "Old photo, black and white",
            "grey, softened, contrast at 60 %, grain of 10, eight scratches, dust",
            _old_black_and_white,
        ),
        Degradation(
            "old-colour",
            "Old photo, colour",
            "softened, dyes faded towards yellow, grain of 8, six scratches, dust",
            _old_colour,
        ),
        Degradation(
            "surveillance",
            "Surveillance",
            "dim and pale, shrunk to a quarter, noise of 12, JPEG 30, enlarged again",
            _surveillance,
        ),
    )
}
