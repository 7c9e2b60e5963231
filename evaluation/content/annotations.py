"""Annotations of an image: its face, free floor, wall and sky, and written words.

Coordinates are fractions of the image's width and height, from the upper left corner. Curators
draw the annotations. Reference editors draw in annotated places. Metrics and witnesses (detectors)
examine the annotated face. A pair that needs a place is played only on images with this place.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, Strict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from evaluation.errors import first_error

#: Free areas. A drawing stands on the lower edge of a floor, surface or water box, or hangs in the
#: middle of a wall or sky box. It may cover the whole box.
AREAS = ("floor", "wall", "sky", "surface", "water")
#: Cropping drops a box if less than this share of the box is left.
KEPT_SHARE = 0.5
#: Coordinates are rounded to so many decimals (a twentieth of a pixel at 4K), so that all
#: machines agree.
DIGITS = 5


def _rounded(value: float) -> float:
    return round(value, DIGITS)


def _not_empty(
    box: tuple[float, float, float, float],
) -> tuple[float, float, float, float]:
    if box[0] >= box[2] or box[1] >= box[3]:
        raise ValueError(f"the box {list(box)} is empty")
    return box


def _left_first(
    eyes: tuple[tuple[float, float], tuple[float, float]],
) -> tuple[tuple[float, float], tuple[float, float]]:
    if eyes[0][0] >= eyes[1][0]:
        raise ValueError("list the eye on the image's left first")
    return eyes


#: A coordinate in fractions of the image, 0 to 1.
Fraction = Annotated[float, Strict(), Field(ge=0, le=1), AfterValidator(_rounded)]
Point: TypeAlias = tuple[Fraction, Fraction]  # x, y
#: Left, top, right, bottom.
Box: TypeAlias = Annotated[
    tuple[Fraction, Fraction, Fraction, Fraction], AfterValidator(_not_empty)
]
_CONFIG = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=_CONFIG)
class Words:
    """Words written in an image, and their box."""

    text: Annotated[str, Field(pattern=r"\S")]
    box: Box


@dataclass(frozen=True, config=_CONFIG)
class Annotations:
    """The annotations of an image, with at most one face."""

    face: Box | None = None  # hairline to chin, cheek to cheek
    # Both pupils, the one on the image's left first.
    eyes: Annotated[tuple[Point, Point], AfterValidator(_left_first)] | None = None
    mouth: Point | None = None  # the middle of the lips
    head_top: Point | None = None  # the top of the hair or hat
    neck: Point | None = None  # the hollow of the throat; None if covered
    floor: tuple[Box, ...] = ()  # free floor or ground
    wall: tuple[Box, ...] = ()
    sky: tuple[Box, ...] = ()
    surface: tuple[Box, ...] = ()  # table tops, shelves
    water: tuple[Box, ...] = ()
    text: tuple[Words, ...] = ()

    def __post_init__(self) -> None:
        if self.face is None and (self.eyes or self.mouth or self.head_top or self.neck):
            raise ValueError("face is missing, but eyes, mouth, head_top or neck are given")

    def __bool__(self) -> bool:
        return self != UNANNOTATED

    @classmethod
    def from_dict(cls, data: Any) -> Annotations:
        """Read annotations from JSON. Raises ValueError naming the invalid field."""
        try:
            return _adapter().validate_python(data)
        except ValidationError as error:
            raise ValueError(first_error(error)) from None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object without empty fields."""
        data: dict[str, Any] = _adapter().dump_python(self, mode="json", exclude_defaults=True)
        return data

    def cropped(self, crop: Box) -> Annotations:
        """Return the annotations in fractions of a crop of the image.

        Boxes are clipped. Boxes cut by more than half are dropped, as are points outside the crop,
        words that are cut, and a face with an eye outside.
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


@cache
def _adapter() -> TypeAdapter[Annotations]:
    return TypeAdapter(Annotations)


#: Empty annotations.
UNANNOTATED = Annotations()
