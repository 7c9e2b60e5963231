"""Places in a picture: its face, free room on floor, wall and sky, written words.

All places are fractions of the picture's width and height, counted from the upper left
corner. Curators draw them; reference editors put their drawings there, identity and
witnesses look there, and a pair that needs a place is played only where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeAlias

Point: TypeAlias = tuple[float, float]  # x, y
Box: TypeAlias = tuple[float, float, float, float]  # left, top, right, bottom

#: A thing stands on the lower edge of its floor, surface or water, hangs in the middle of its
#: wall or sky, and may cover whatever is in the box: nothing of importance is there.
AREAS = ("floor", "wall", "sky", "surface", "water")
#: Less of a box than this share is no longer that place.
KEPT_SHARE = 0.5
#: Digits that are kept: a twentieth of a pixel at 4K, the same on every machine.
DIGITS = 5


@dataclass(frozen=True)
class Words:
    """Words written in a picture, and their place."""

    text: str
    box: Box

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise ValueError("text is empty")
        object.__setattr__(self, "box", _box("box", self.box))


@dataclass(frozen=True)
class Annotations:
    """The annotated places of a picture, with at most one face."""

    face: Box | None = None  # hairline to chin, cheek to cheek
    eyes: tuple[Point, Point] | None = None  # both pupils, the one on the picture's left first
    mouth: Point | None = None  # where the lips meet
    head_top: Point | None = None  # of the hair or hat as it is
    neck: Point | None = None  # the hollow of the throat; none where it is covered
    floor: tuple[Box, ...] = ()  # free floor or ground
    wall: tuple[Box, ...] = ()
    sky: tuple[Box, ...] = ()
    surface: tuple[Box, ...] = ()  # table tops, shelves
    water: tuple[Box, ...] = ()
    text: tuple[Words, ...] = ()

    def __post_init__(self) -> None:
        if self.face is not None:
            object.__setattr__(self, "face", _box("face", self.face))
        for name in ("mouth", "head_top", "neck"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _point(name, getattr(self, name)))
        if self.eyes is not None:
            object.__setattr__(self, "eyes", _eyes(self.eyes))
        for name in AREAS:
            boxes = tuple(_box(name, box) for box in _several(name, getattr(self, name)))
            object.__setattr__(self, name, boxes)
        object.__setattr__(self, "text", tuple(_several("text", self.text)))
        if self.face is None and (self.eyes or self.mouth or self.head_top or self.neck):
            raise ValueError("face is missing, but its eyes, mouth, head_top or neck are given")

    def __bool__(self) -> bool:
        return self != UNANNOTATED

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """The annotations of a JSON object; ValueError names the field that does not fit."""
        if not isinstance(data, Mapping):  # a file may hold anything
            raise ValueError("expected an object with face, eyes, floor, text …")
        values = dict(data)
        if unknown := sorted(set(values) - {item.name for item in fields(cls)}):
            raise ValueError(f"{unknown[0]} is not a place that can be annotated")
        values["text"] = tuple(_words(row) for row in _several("text", values.get("text") or ()))
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """A JSON object with what there is, and no empty fields."""
        found: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "text":
                value = [{"text": words.text, "box": list(words.box)} for words in value]
            elif item.name == "eyes" or item.name in AREAS:
                value = [list(part) for part in value or ()]
            elif value is not None:
                value = list(value)
            if value:
                found[item.name] = value
        return found

    def cropped(self, crop: Box) -> Annotations:
        """The same places in fractions of a part of the picture.

        Boxes are clipped, and dropped where more than half of them is cut away; points
        outside are dropped, a cut word too, and all of a face that has lost its eyes.
        """
        left, top, right, bottom = crop
        across, down = right - left, bottom - top

        def point(at: Point | None) -> Point | None:
            if at is None or not (left <= at[0] <= right and top <= at[1] <= bottom):
                return None
            return (at[0] - left) / across, (at[1] - top) / down

        def box(whole: Box, share: float = KEPT_SHARE) -> Box | None:
            inside = (
                max(whole[0], left),
                max(whole[1], top),
                min(whole[2], right),
                min(whole[3], bottom),
            )
            if inside[0] >= inside[2] or inside[1] >= inside[3]:
                return None
            if _area(inside) < share * _area(whole) * (1 - 1e-6):
                return None
            return (
                (inside[0] - left) / across,
                (inside[1] - top) / down,
                (inside[2] - left) / across,
                (inside[3] - top) / down,
            )

        values: dict[str, Any] = {
            name: tuple(inside for whole in getattr(self, name) if (inside := box(whole)))
            for name in AREAS
        }
        values["text"] = tuple(
            replace(words, box=inside) for words in self.text if (inside := box(words.box, 1.0))
        )
        eyes = tuple(point(eye) for eye in self.eyes or ())
        if self.face and None not in eyes and (face := box(self.face)):
            values |= {"face": face, "eyes": eyes or None}
            values |= {name: point(getattr(self, name)) for name in ("mouth", "head_top", "neck")}
        return Annotations(**values)


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _several(name: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} is not a list")
    return value


def _words(row: Any) -> Words:
    if isinstance(row, Words):
        return row
    if not isinstance(row, Mapping) or set(row) != {"text", "box"}:
        raise ValueError("text needs objects with 'text' and 'box'")
    try:
        return Words(**row)
    except ValueError as error:
        raise ValueError(f"text: {error}") from None


def _eyes(value: Any) -> tuple[Point, Point]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError("eyes are two points, [[x, y], [x, y]]")
    one, two = (_point("eyes", eye) for eye in value)
    if one[0] >= two[0]:
        raise ValueError("eyes: the one on the picture's left comes first")
    return one, two


def _point(name: str, value: Any) -> Point:
    x, y = _fractions(name, value, 2, "a point is two numbers, x and y")
    return x, y


def _box(name: str, value: Any) -> Box:
    left, top, right, bottom = _fractions(
        name, value, 4, "a box is four numbers, left, top, right, bottom"
    )
    if left >= right or top >= bottom:
        raise ValueError(f"{name}: the box {list(value)} has no inside")
    return left, top, right, bottom


def _fractions(name: str, value: Any, count: int, shape: str) -> list[float]:
    if not isinstance(value, list | tuple) or len(value) != count:
        raise ValueError(f"{name}: {shape}")
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in value):
        raise ValueError(f"{name}: {shape}")
    if not all(0 <= v <= 1 for v in value):
        raise ValueError(f"{name}: {list(value)} is not in fractions of the picture, 0 to 1")
    return [round(float(v), DIGITS) for v in value]


#: Of a picture without annotations.
UNANNOTATED = Annotations()
