"""Marks that look natural: a leaf, a stain, a sticker, a patch of another hue.

Audits (tests for cheating) paint a mark on a model's answer and see whether the model returns it.
Shape, colour, size and position are random, so that no model can learn to recognise marks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

Values = npt.NDArray[np.float32]
Random = np.random.Generator

#: The mark's diameter, as a share of the shorter side: about a twentieth of the image.
SIZES = (0.2, 0.27)
#: Marks keep this distance from the border, because an editor may crop it.
MARGIN = 0.06
#: A visible mark changes its pixels by at least this share of the full range. If a mark is not
#: visible, a mark of another kind is painted instead.
SEEN = 0.08
#: Of the possible positions, this share is used: the positions that the edit changed least.
CALM = 0.25
#: Outlines are drawn at this scale and reduced, for smooth edges.
_SUPERSAMPLING = 4


def with_mark(image: Image.Image, changed: Values | None, random: Random) -> Image.Image:
    """Paint a mark where the edit changed little; anywhere if `changed` is None.

    `changed` has the change of each pixel by the edit, at any resolution.
    """
    width, height = image.size
    diameter = max(8, round(random.uniform(*SIZES) * min(width, height)))
    left, top = _position(image.size, diameter, changed, random)
    pixels = np.asarray(image, dtype=np.float32) / 255
    patch = pixels[top : top + diameter, left : left + diameter]
    for kind in random.permutation(len(_KINDS)):
        marked = _KINDS[kind](patch, random)
        if float(np.abs(marked - patch).mean()) >= SEEN / 2:
            break
    result = pixels.copy()
    result[top : top + diameter, left : left + diameter] = np.clip(marked, 0, 1)
    return Image.fromarray(np.rint(result * 255).astype(np.uint8))


def _position(
    size: tuple[int, int], diameter: int, changed: Values | None, random: Random
) -> tuple[int, int]:
    """Return the upper left corner of the mark's square."""
    width, height = size
    edge = round(MARGIN * min(size))
    columns = np.unique(np.linspace(edge, max(edge, width - edge - diameter), 12).astype(int))
    rows = np.unique(np.linspace(edge, max(edge, height - edge - diameter), 12).astype(int))
    corners = [(int(x), int(y)) for x in columns for y in rows]
    if changed is None:
        return corners[random.integers(len(corners))]
    import cv2

    resized = cv2.resize(changed, size, interpolation=cv2.INTER_LINEAR)
    change = [float(resized[y : y + diameter, x : x + diameter].mean()) for x, y in corners]
    calm = np.argsort(change, kind="stable")[: max(1, round(CALM * len(corners)))]
    return corners[int(random.choice(calm))]


def _outline(side: int, points: list[tuple[float, float]]) -> Values:
    """Return how much of each pixel a polygon in the unit square covers."""
    large = Image.new("L", (side * _SUPERSAMPLING, side * _SUPERSAMPLING))
    ImageDraw.Draw(large).polygon(
        [(x * side * _SUPERSAMPLING, y * side * _SUPERSAMPLING) for x, y in points], fill=255
    )
    covered: Values = np.asarray(large.reduce(_SUPERSAMPLING), dtype=np.float32) / np.float32(255)
    return covered


def _blob(side: int, random: Random, roundness: float) -> Values:
    """Return a round shape with a random uneven edge."""
    angles = np.linspace(0, 2 * np.pi, 90, endpoint=False)
    radius = np.full(90, 0.44)
    for wave in range(2, 7):
        radius += (
            (1 - roundness)
            * 0.05
            * random.normal()
            * np.sin(wave * angles + random.uniform(0, 2 * np.pi))
        )
    radius = np.clip(radius, 0.2, 0.49)
    points = zip(0.5 + radius * np.cos(angles), 0.5 + radius * np.sin(angles), strict=True)
    return _outline(side, [(float(x), float(y)) for x, y in points])


def _soft(shape: Values, share: float) -> Values:
    import cv2

    return np.asarray(cv2.GaussianBlur(shape, (0, 0), max(0.6, share * len(shape))))


def _colour(random: Random, hues: tuple[float, float], value: tuple[float, float]) -> Values:
    import cv2

    hue = random.uniform(*hues) % 360
    hsv = np.array([[[hue, random.uniform(0.45, 0.85), random.uniform(*value)]]], np.float32)
    return np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB))[0, 0]


def _contrasting(patch: Values, colour: Values) -> Values:
    """Brighten or darken the colour until it stands out from the patch."""
    grey = float(patch.mean())
    if abs(float(colour.mean()) - grey) > 0.15:
        return colour
    return np.clip(colour + (0.3 if grey < 0.5 else -0.3), 0, 1)


def _leaf(patch: Values, random: Random) -> Values:
    side = len(patch)
    turn, width = random.uniform(0, np.pi), random.uniform(0.16, 0.26)
    along = np.linspace(-0.46, 0.46, 40)
    across = width * np.cos(np.pi * along / 0.92) ** random.uniform(0.7, 1.3)
    outline = [*zip(along, across, strict=True), *zip(along[::-1], -across[::-1], strict=True)]
    cosine, sine = np.cos(turn), np.sin(turn)
    points = [(0.5 + x * cosine - y * sine, 0.5 + x * sine + y * cosine) for x, y in outline]
    shape = _soft(_outline(side, [(float(x), float(y)) for x, y in points]), 0.012)
    colour = _contrasting(patch, _colour(random, (25, 125), (0.3, 0.75)))
    rows, columns = np.mgrid[0:side, 0:side].astype(np.float32) / side - 0.5
    vein = np.exp(-np.square((columns * -sine + rows * cosine) / 0.012))[..., None]
    inside = colour * (1 - 0.25 * vein) * (0.85 + 0.3 * (columns * sine + rows * cosine)[..., None])
    return _blend(patch, inside, shape, random.uniform(0.85, 1))


def _stain(patch: Values, random: Random) -> Values:
    shape = _soft(_blob(len(patch), random, 0.2), random.uniform(0.02, 0.06))
    tone = _colour(random, (15, 45), (0.35, 0.55))
    darker = patch * tone
    if float((patch - darker).mean()) < SEEN:  # on a dark ground only dust is visible
        darker = 0.5 * patch + 0.5 * np.clip(tone + 0.4, 0, 1)
    return _blend(patch, darker, shape, random.uniform(0.7, 0.95))


def _sticker(patch: Values, random: Random) -> Values:
    side = len(patch)
    shape = _blob(side, random, 1.0)
    colour = _contrasting(patch, _colour(random, (0, 360), (0.5, 0.95)))
    inner = _outline(side, _ring(0.44 * random.uniform(0.7, 0.85)))[..., None]
    rim = np.full(3, 0.93 if random.random() < 0.7 else 0.15, np.float32)
    return _blend(patch, inner * colour + (1 - inner) * rim, _soft(shape, 0.01), 0.97)


def _ring(radius: float) -> list[tuple[float, float]]:
    angles = np.linspace(0, 2 * np.pi, 90, endpoint=False)
    return [(0.5 + radius * float(np.cos(a)), 0.5 + radius * float(np.sin(a))) for a in angles]


def _hue(patch: Values, random: Random) -> Values:
    import cv2

    shape = _soft(_blob(len(patch), random, 0.5), random.uniform(0.03, 0.07))
    hsv = np.asarray(cv2.cvtColor(np.ascontiguousarray(patch), cv2.COLOR_RGB2HSV))
    hsv[..., 0] = (hsv[..., 0] + random.choice([-1, 1]) * random.uniform(50, 130)) % 360
    hsv[..., 1] = np.clip(hsv[..., 1] * random.uniform(1.0, 1.4) + random.uniform(0.1, 0.3), 0, 1)
    return _blend(patch, np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)), shape, 1.0)


def _blend(patch: Values, over: Values, shape: Values, strength: float) -> Values:
    cover = (shape * strength)[..., None].astype(np.float32)
    return np.asarray(patch * (1 - cover) + over * cover, dtype=np.float32)


_KINDS: tuple[Callable[[Values, Random], Values], ...] = (_leaf, _stain, _sticker, _hue)
