"""Find the spot for a drawing in an annotated image, such as glasses on the eyes.

The spot depends only on the image and the drawing, so "remove the hat" needs no detection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter

from evaluation.content.annotations import AREAS, Annotations, Box, Point

#: The folder of the drawings: SVG files, and things.json with an entry for each.
DRAWINGS = Path(__file__).resolve().parent / "drawings"

#: The annotated point of the head for each place.
FACE_PLACES = {
    "eyes": "eyes",
    "head": "head_top",
    "hair": "head_top",
    "ears": "eyes",
    "mouth": "mouth",
    "neck": "neck",
}
PLACES = (*FACE_PLACES, "face", "clothes", *AREAS, "text")
#: Areas on whose lower edge a drawing stands; in the other areas drawings hang in the middle.
STANDING_AREAS = frozenset({"floor", "surface", "water"})

# The smallest shares of the image's area. The test of whether an edit is visible compares blocks of
# pixels (evaluation.measuring.change_seen) and could miss a smaller edit.
SMALLEST_DRAWING = 0.02
SMALLEST_REGION = 0.05
SMALLEST_MOUTH = 0.02
# The tip of a hat may be cut off by the image's border, its brim may not.
SHARE_INSIDE = 0.93


@dataclass(frozen=True)
class Thing:
    """A drawing's place and size, and its usual names.

    `width` is relative to the face's width for worn things, or to the distance of the eyes for
    glasses. For other things, `width` is the largest share of the image's shorter side. `anchor` is
    the point of the drawing, in fractions of its size, that is put on the head's annotated point.
    `alone` is the spot in an image without annotations: the centre in fractions of the image, and
    the width as a share of the shorter side.
    """

    place: str
    width: float
    alone: tuple[float, float, float]
    words: tuple[str, ...]
    anchor: tuple[float, float] = (0.5, 0.5)


THINGS = TypeAdapter(dict[str, Thing]).validate_json((DRAWINGS / "things.json").read_bytes())


@dataclass(frozen=True)
class Spot:
    """A drawing's centre and size in pixels, and its clockwise turn in degrees."""

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
        """Return the share of the box that is inside an image of this size."""
        left, top, right, bottom = self.box
        across = max(0.0, min(right, width) - max(left, 0))
        down = max(0.0, min(bottom, height) - max(top, 0))
        return across * down / ((right - left) * (bottom - top))


def spot(name: str, places: Annotations, width: int, height: int) -> Spot | None:
    """Return the spot of a drawing in an image of this size; None if there is no room."""
    thing = THINGS[name]
    place = (
        _worn(thing, aspect(name), places, width, height)
        if thing.place in FACE_PLACES
        else _placed(thing, aspect(name), getattr(places, thing.place), width, height)
    )
    if place is None or place.width * place.height < SMALLEST_DRAWING * width * height:
        return None
    return place if place.share_inside(width, height) >= SHARE_INSIDE else None


def usual_spot(name: str, width: int, height: int) -> Spot:
    """Return the spot of a drawing in an image of this size without annotations."""
    (x, y, share), shape = THINGS[name].alone, aspect(name)
    # The drawing shrinks in an extreme aspect ratio, so that it stays inside the image.
    wide = min(share * min(width, height), 0.9 * width, 0.9 * height * shape)
    high = wide / shape
    x = min(max(x * width, wide / 2), width - wide / 2)
    y = min(max(y * height, high / 2), height - high / 2)
    return Spot(x, y, wide, high)


def region(place: str, places: Annotations) -> Box | None:
    """Return the largest box of a place, for rules that repaint it."""
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
    raise ValueError(f"{place!r} is not a region of an image")


def misfit(place: str, thing: str, places: Annotations, width: int, height: int) -> str:
    """Return the reason why the place cannot be used; empty if it can."""
    if thing in THINGS and THINGS[thing].place == place:
        if spot(thing, places, width, height):
            return ""
        return f"The image has no room for a {thing.replace('-', ' ')} ({place})."
    if place in ("eyes", "head", "neck", "ears"):
        return "" if getattr(places, FACE_PLACES[place]) else f"Not annotated: {place}."
    box = region(place, places)
    if box is None:
        return f"The image has no free {place}." if place in AREAS else f"The image has no {place}."
    smallest = SMALLEST_MOUTH if place == "mouth" else SMALLEST_REGION
    if place != "text" and _area(box) < smallest:
        return f"The image's {place} is too small: {_area(box):.0%} of the image."
    return ""


@lru_cache(maxsize=128)
def aspect(name: str) -> float:
    """Return the aspect ratio of a drawing, width over height."""
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
        if thing.place not in STANDING_AREAS:
            y = (top + bottom) / 2 * height
        # Among boxes of about equal size take the first: curators list the best place first.
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
