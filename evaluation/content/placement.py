"""Place a drawn thing in an annotated image, such as glasses on the eyes.

The place depends only on the image and the thing, so that "remove the hat" finds the place
without detecting the hat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from evaluation.content.annotations import AREAS, Annotations, Box, Point

#: The drawings are files of the reference editors.
DRAWINGS = Path(__file__).resolve().parents[1] / "editors" / "drawings"

#: The point of a head that each place is measured from.
FACE_PLACES = {
    "eyes": "eyes",
    "head": "head_top",
    "hair": "head_top",
    "ears": "eyes",
    "mouth": "mouth",
    "neck": "neck",
}
PLACES = (*FACE_PLACES, "face", "clothes", *AREAS, "text")
#: Things stand on these, and hang in the middle of the others.
STOOD_ON = frozenset({"floor", "surface", "water"})

# A change must be visible and detected by the method's block rule: shares of the image's area.
SMALLEST_DRAWING = 0.02
SMALLEST_REGION = 0.05
SMALLEST_MOUTH = 0.02
# The tip of a hat may lie outside the image, its brim may not.
SHARE_INSIDE = 0.93


@dataclass(frozen=True)
class Thing:
    """The place and size of a drawing.

    `width` is in widths of the face for worn things (in distances of the eyes for glasses), else
    the largest share of the picture's shorter side. `anchor` is the point of the drawing, in
    fractions of it, that is put on the head's point.
    """

    place: str
    width: float
    anchor: Point = (0.5, 0.5)


THINGS = {
    "glasses": Thing("eyes", 2.25, (0.5, 0.46)),
    "sunglasses": Thing("eyes", 2.3, (0.5, 0.42)),
    "hat": Thing("head", 2.0, (0.5, 0.56)),
    "cap": Thing("head", 1.3, (0.5, 0.40)),
    "crown": Thing("head", 1.1, (0.5, 0.78)),
    "beanie": Thing("head", 1.28, (0.5, 0.40)),
    "party-hat": Thing("head", 0.75, (0.5, 0.86)),
    "headphones": Thing("ears", 1.62, (0.5, 0.60)),
    "earrings": Thing("ears", 1.32, (0.5, -0.6)),
    "moustache": Thing("mouth", 0.72, (0.5, 0.98)),
    "beard": Thing("mouth", 0.98, (0.5, 0.20)),
    "mask": Thing("mouth", 1.0, (0.5, 0.42)),
    "necklace": Thing("neck", 0.95, (0.5, 0.42)),
    "scarf": Thing("neck", 1.3, (0.5, 0.20)),
    "bow-tie": Thing("neck", 0.66, (0.5, 0.25)),
    "tie": Thing("neck", 0.36, (0.5, 0.04)),
    "flower": Thing("hair", 0.46, (-0.12, 0.25)),
    "chair": Thing("floor", 0.30),
    "ball": Thing("floor", 0.24),
    "potted-plant": Thing("floor", 0.30),
    "cat": Thing("floor", 0.28),
    "dog": Thing("floor", 0.30),
    "umbrella": Thing("floor", 0.36),
    "bicycle": Thing("floor", 0.50),
    "teddy-bear": Thing("floor", 0.30),
    "suitcase": Thing("floor", 0.30),
    "guitar": Thing("floor", 0.18),
    "pumpkin": Thing("floor", 0.28),
    "gift": Thing("floor", 0.26),
    "book": Thing("surface", 0.40),
    "cup": Thing("surface", 0.26),
    "candle": Thing("surface", 0.16),
    "apple": Thing("surface", 0.20),
    "lamp": Thing("surface", 0.26),
    "vase": Thing("surface", 0.20),
    "bottle": Thing("surface", 0.12),
    "clock": Thing("wall", 0.26),
    "picture-frame": Thing("wall", 0.34),
    "sign": Thing("wall", 0.36),
    "butterfly": Thing("wall", 0.30),
    "balloon": Thing("sky", 0.18),
    "bird": Thing("sky", 0.5),
    "hot-air-balloon": Thing("sky", 0.24),
    "kite": Thing("sky", 0.26),
    "airplane": Thing("sky", 0.40),
    "cloud": Thing("sky", 0.44),
    "moon": Thing("sky", 0.20),
    "rainbow": Thing("sky", 0.70),
    "sailing-boat": Thing("water", 0.26),
    "duck": Thing("water", 0.24),
}


@dataclass(frozen=True)
class Spot:
    """A drawing's centre and size in pixels, turned clockwise by degrees."""

    x: float
    y: float
    width: float
    height: float
    turn: float = 0.0

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The upright bounding box: left, top, right, bottom."""
        c, s = abs(math.cos(math.radians(self.turn))), abs(math.sin(math.radians(self.turn)))
        half_width = (self.width * c + self.height * s) / 2
        half_height = (self.width * s + self.height * c) / 2
        return (
            self.x - half_width,
            self.y - half_height,
            self.x + half_width,
            self.y + half_height,
        )

    def share_inside(self, width: float, height: float) -> float:
        """Return the part of its box inside a picture of this size."""
        left, top, right, bottom = self.box
        across = max(0.0, min(right, width) - max(left, 0))
        down = max(0.0, min(bottom, height) - max(top, 0))
        return across * down / ((right - left) * (bottom - top))


def spot(name: str, places: Annotations, width: int, height: int) -> Spot | None:
    """Return the spot of the drawing in a picture of this size, or None.

    None means that there is no room.
    """
    thing = THINGS[name]
    place = (
        _worn(thing, aspect(name), places, width, height)
        if thing.place in FACE_PLACES
        else _placed(thing, aspect(name), getattr(places, thing.place), width, height)
    )
    if place is None or place.width * place.height < SMALLEST_DRAWING * width * height:
        return None
    return place if place.share_inside(width, height) >= SHARE_INSIDE else None


def region(place: str, places: Annotations) -> Box | None:
    """Return the largest box of a place, for rules that paint over it."""
    if place == "face":
        return places.face
    if place == "hair":
        return _hair(places)
    if place == "mouth":
        return _mouth(places)
    if place == "clothes":
        return _clothes(places)
    if place == "text":
        return max((words.box for words in places.text), key=_area, default=None)
    if place in AREAS:
        boxes: tuple[Box, ...] = getattr(places, place)
        return max(boxes, key=_area, default=None)
    raise ValueError(f"{place!r} is not a region of a picture")


def lacks(place: str, thing: str, places: Annotations, width: int, height: int) -> str:
    """Return the reason why the place cannot be used; empty if it can."""
    if thing in THINGS and THINGS[thing].place == place:
        if spot(thing, places, width, height):
            return ""
        return f"The picture has no room for a {thing.replace('-', ' ')} ({place})."
    if place in ("eyes", "head", "neck", "ears"):
        return "" if getattr(places, FACE_PLACES[place]) else f"No {place} are annotated."
    box = region(place, places)
    if box is None:
        return f"The picture has no free {place}." if place in AREAS else f"It has no {place}."
    smallest = SMALLEST_MOUTH if place == "mouth" else SMALLEST_REGION
    if place != "text" and _area(box) < smallest:
        return f"The picture's {place} is too small: {_area(box):.0%} of it."
    return ""


@lru_cache(maxsize=128)
def aspect(name: str) -> float:
    """Return width over height of a drawing."""
    svg = (DRAWINGS / f"{name}.svg").read_text(encoding="utf-8")
    _, _, width, height = svg.partition('viewBox="')[2].partition('"')[0].split()
    return float(width) / float(height)


def _worn(thing: Thing, shape: float, places: Annotations, width: int, height: int) -> Spot | None:
    point = _head_point(thing.place, places)
    if point is None or places.face is None:
        return None
    turn, eye_distance = 0.0, 0.0
    if places.eyes:
        (ax, ay), (bx, by) = places.eyes
        across, down = (bx - ax) * width, (by - ay) * height
        turn, eye_distance = math.degrees(math.atan2(down, across)), math.hypot(across, down)
    unit = eye_distance if thing.place == "eyes" else (places.face[2] - places.face[0]) * width
    wide = thing.width * unit
    high = wide / shape
    dx, dy = (0.5 - thing.anchor[0]) * wide, (0.5 - thing.anchor[1]) * high
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    x, y = point[0] * width + c * dx - s * dy, point[1] * height + s * dx + c * dy
    return Spot(x, y, wide, high, turn)


def _head_point(place: str, places: Annotations) -> Point | None:
    name = FACE_PLACES[place]
    if name != "eyes":
        point: Point | None = getattr(places, name)
        return point
    if places.eyes is None:
        return None
    (ax, ay), (bx, by) = places.eyes
    return (ax + bx) / 2, (ay + by) / 2


def _placed(
    thing: Thing, shape: float, boxes: tuple[Box, ...], width: int, height: int
) -> Spot | None:
    best: Spot | None = None
    for left, top, right, bottom in boxes:
        wide = min(
            thing.width * min(width, height),
            (right - left) * width,
            (bottom - top) * height * shape,
        )
        high = wide / shape
        x = (left + right) / 2 * width
        y = bottom * height - high / 2
        if thing.place not in STOOD_ON:
            y = (top + bottom) / 2 * height
        # Of equal boxes the first, since curators list the best place first.
        if best is None or wide > best.width * 1.05:
            best = Spot(x, y, wide, high)
    return best


def _hair(places: Annotations) -> Box | None:
    if places.face is None or places.head_top is None or places.eyes is None:
        return None
    left, _, right, bottom = places.face
    margin = 0.2 * (right - left)
    return max(0.0, left - margin), places.head_top[1], min(1.0, right + margin), bottom


def _mouth(places: Annotations) -> Box | None:
    if places.face is None or places.mouth is None:
        return None
    left, top, right, bottom = places.face
    across, down = 0.27 * (right - left), 0.13 * (bottom - top)
    x, y = places.mouth
    return max(0.0, x - across), max(0.0, y - down), min(1.0, x + across), min(1.0, y + down)


def _clothes(places: Annotations) -> Box | None:
    if places.face is None:
        return None
    left, top, right, bottom = places.face
    neck = places.neck[1] if places.neck else bottom + 0.2 * (bottom - top)
    across = right - left
    box = (max(0.0, left - 0.7 * across), neck, min(1.0, right + 0.7 * across), 1.0)
    return box if box[3] - box[1] >= 0.12 else None


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
