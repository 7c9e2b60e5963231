"""Suites as plain data: images, edit pairs and cases, frozen and hashed.

The suite file (JSON) is the only exchange format: the shell plays it, the site exports its frozen
suites as suite files, and bundles contain one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    Strict,
    TypeAdapter,
    ValidationError,
)

from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.content.operators import DEGRADATIONS, INVERSES
from evaluation.content.shapes import Move, Step, TripShape, round_trip, trip_shapes
from evaluation.errors import UserFacingError, first_error
from evaluation.untrusted_json import read_json_file

FORMAT = 1
#: Slugs are used as folder names.
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,80}$")]
Text = Annotated[str, Field(max_length=10_000)]
#: Counts are bounded, because they limit loops.
Count = Annotated[int, Strict(), Field(ge=1, le=1_000)]
Side = Annotated[int, Strict(), Field(ge=1, le=65_536)]
ONLY_FIELDS = ConfigDict(extra="forbid")
#: Fields that are written and hashed only if not empty. They were added later, and older frozen
#: suites must keep their hash.
ADDED_FIELDS = (
    "annotations",
    "type",
    "place",
    "present",
    "witness",
    "repeats",
    "shape",
    "steps",
    "against",
)


#: How images came about, with the names on pages. (The field `origin` is the file's location.)
ORIGINS = {
    "photograph": "Photograph",
    "painting": "Painting",
    "render": "Render",
    "generated": "AI-made",
}


class SuiteError(UserFacingError):
    """A suite that cannot be used."""


@dataclass(frozen=True)
class SuiteImage:
    """A source image, cropped to the working size; `sha256` is the hash of its RGB pixels."""

    slug: Slug
    sha256: Text
    width: Side
    height: Side
    kind: Text  # face, object, scene
    origin: Text  # the original file, see evaluation.content.sources
    title: Text
    author: Text
    licence: Text
    attribution: Text
    subkind: Text = ""
    source_url: Text = ""
    made: Text = "real"  # real, rendered, generated
    contains: tuple[Text, ...] = ()
    # In fractions of the prepared image, not of the original.
    annotations: Annotated[Annotations, PlainSerializer(Annotations.to_dict)] = UNANNOTATED

    __pydantic_config__ = ONLY_FIELDS


class HasOrigin(Protocol):
    """A source image, prepared or not."""

    @property
    def made(self) -> str: ...
    @property
    def contains(self) -> Sequence[str]: ...


def origin_of(image: HasOrigin) -> str:
    """Return how an image came about, one of ORIGINS."""
    if "painting" in image.contains:
        return "painting"
    return {"rendered": "render", "generated": "generated"}.get(image.made, "photograph")


@dataclass(frozen=True)
class EditPair:
    """A forward prompt and its inverse, or a chain shape of more steps.

    In a shape (evaluation.content.shapes), `forward` is the first prompt and `backward` the last.
    """

    slug: Slug
    category: Text
    forward: Text
    backward: Text
    # The expected change, by which we judge whether the edit is visible: exact, local, global or
    # none. With "operator" the benchmark degrades the image, and the model restores it.
    change: Text
    reversibility: Text = "clean"  # exact, clean, partial, destroys, invents
    # Exact pairs: flip_horizontal, flip_vertical, rotate_90, rotate_270 or rotate_180.
    # Restoration pairs: a degradation of evaluation.content.operators.
    operator: Text = ""
    object: Text = ""
    source_text: Text = ""  # for CLIP's direction score
    target_text: Text = ""
    kinds: tuple[Text, ...] = ()  # the kinds of images that the pair fits; empty = all
    absent: tuple[Text, ...] = ()  # labels that an image must not have
    present: tuple[Text, ...] = ()  # labels that an image must have, all of them
    place: Text = ""  # the place of the edit, see evaluation.content.placement; empty = anywhere
    type: Text = ""  # family/name, see evaluation.content.edit_types
    # The witness (automatic check) of the edit, and the requested thing: "detector:chair".
    witness: Text = ""
    shape: Text = ""  # "A B b a"; empty = forward, backward
    steps: tuple[Step, ...] = ()  # the edit of each letter of the shape
    against: Text = ""  # a pair with these edits in another order, to compare the images

    __pydantic_config__ = ONLY_FIELDS

    @cached_property
    def cycle(self) -> tuple[TripShape, ...]:
        """The trips that a chain repeats in a cycle. Raises ValueError if the shape is invalid."""
        if not self.shape:
            if self.steps:
                raise ValueError("steps are given, but no shape")
            return (round_trip(self.forward, self.backward, self.degradation),)
        trips = trip_shapes(self.shape, self.steps)
        first, last = trips[0].steps[0].prompt, trips[-1].steps[-1].prompt
        if (self.forward, self.backward) != (first, last):
            raise ValueError("forward and backward must be the first and last prompt of the shape")
        return trips

    @property
    def degradation(self) -> str:
        """The operator, if the benchmark makes the forward edit; "" if the model makes it."""
        if self.change != "operator":
            return ""
        if self.operator not in DEGRADATIONS:
            raise ValueError(f"operator is {self.operator!r}, not one of {', '.join(DEGRADATIONS)}")
        return self.operator

    def trip(self, number: int) -> TripShape:
        """Return the steps of trip `number`."""
        return self.cycle[(number - 1) % len(self.cycle)]

    def edits(self, trips: int) -> int:
        """Count the model's edits in `trips` trips."""
        return sum(self.trip(number).edits for number in range(1, trips + 1))

    def move_as_pair(self, number: int, move: Move) -> EditPair:
        """Return one edit of trip `number` as a pair, to be judged like other pairs."""
        if not self.shape:
            return self
        step = next(step for step in self.steps if step.name == move.letter)
        back = self.trip(number).steps[(move.restored or len(self.trip(number))) - 1].prompt
        return self._single(step, step.prompt, back)

    def last_edit_as_pair(self, number: int) -> EditPair:
        """Return the last edit of trip `number` as a pair, for audits (tests for cheating)."""
        if not self.shape:
            return self
        shape = self.trip(number)
        last = next(step for step in self.steps if step.name == shape.steps[-1].letter)
        if last.change == "exact":  # the last turn undoes the inverse turn
            return self._single(
                replace(last, operator=INVERSES[last.operator]), self.forward, last.prompt
            )
        made = next((step for step in self.steps if step.name == last.name.upper()), last)
        return self._single(made, self.forward, last.prompt)

    def _single(self, step: Step, forward: str, backward: str) -> EditPair:
        return replace(
            self,
            forward=forward,
            backward=backward,
            change=step.change,
            operator=step.operator,
            object=step.object,
            witness=step.witness,
            source_text="",
            target_text="",
            shape="",
            steps=(),
        )


@dataclass(frozen=True)
class Case:
    """A source image and an edit pair, by slug."""

    image: Slug
    pair: Slug
    repeats: Annotated[int, Strict(), Field(ge=0, le=1_000)] = 0  # 0 = the suite's number

    __pydantic_config__ = ONLY_FIELDS

    @property
    def slug(self) -> str:
        return f"{self.image}--{self.pair}"


def plain_slug(text: str, most: int) -> str:
    """Return the text as a slug of at most `most` lower-case letters, digits and dashes, or ""."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:most]


def suite_key(slug: str, version: int) -> str:
    """Return the key of a suite version, such as "smoke-v2"."""
    return f"{slug}-v{version}"


class Versioned(Protocol):
    """A suite from a file or the database."""

    @property
    def slug(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def key(self) -> str: ...


V = TypeVar("V", bound=Versioned)
#: The trips shown in tables; every trip is scored.
TICKS = (1, 2, 3, 5, 10, 15, 20)


def ticks(trips: int) -> list[int]:
    """Return the trips to show for a suite of `trips` trips, including the last."""
    return sorted({number for number in TICKS if number < trips} | {trips})


def find_suite(name: str, among: Iterable[V]) -> V | None:
    """Return the suite with this key, else the newest version with this slug, else None."""
    suites = list(among)
    named = [suite for suite in suites if suite.key == name]
    newest = sorted((s for s in suites if s.slug == name), key=lambda suite: -suite.version)
    return next(iter(named + newest), None)


def _playable(pair: EditPair) -> EditPair:
    pair.cycle  # noqa: B018, raises ValueError if the shape is invalid
    return pair


#: An edit pair from a file; its shape is validated.
Playable: TypeAlias = Annotated[EditPair, AfterValidator(_playable)]


@dataclass(frozen=True)
class Suite:
    """A frozen (unchangeable) list of cases, with the number of trips and the working size."""

    slug: Slug
    version: Annotated[int, Strict(), Field(ge=1, le=1_000_000)]
    title: Text
    trips: Count
    # A prepared image has about size x size pixels in all, in any aspect ratio.
    size: Annotated[int, Strict(), Field(ge=1, le=16_384)]
    images: tuple[SuiteImage, ...]
    pairs: tuple[Playable, ...]
    cases: tuple[Case, ...]
    repeats: Count = 1
    description: Text = field(default="", compare=False)

    __pydantic_config__ = ONLY_FIELDS

    @property
    def key(self) -> str:
        return suite_key(self.slug, self.version)

    @cached_property
    def content_hash(self) -> str:
        """The SHA-256 of everything that affects results, so without the description."""
        content = self._content()
        del content["description"]
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def chains(self) -> int:
        """The number of chains of one run."""
        return sum(self.repeats_of(case) for case in self.cases)

    @property
    def edits(self) -> int:
        """The number of edits of one run."""
        return sum(self.repeats_of(case) * self.edits_of(case) for case in self.cases)

    def edits_of(self, case: Case) -> int:
        """Count the edits of one chain of a case."""
        return self.pair_by_slug[case.pair].edits(self.trips)

    def repeats_of(self, case: Case) -> int:
        """Return the number of times a case is played."""
        return case.repeats or self.repeats

    @cached_property
    def image_by_slug(self) -> Mapping[str, SuiteImage]:
        return {image.slug: image for image in self.images}

    @cached_property
    def pair_by_slug(self) -> Mapping[str, EditPair]:
        return {pair.slug: pair for pair in self.pairs}

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, "content_hash": self.content_hash, **self._content()}

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = _adapter().dump_python(self, mode="json")
        for name in ("images", "pairs", "cases"):
            content[name] = [
                {key: value for key, value in row.items() if value or key not in ADDED_FIELDS}
                for row in content[name]
            ]
        return content

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Suite:
        """Return the suite in `data`. Raises SuiteError naming the invalid part."""
        values = dict(data) if isinstance(data, Mapping) else {}
        if values.pop("format", None) != FORMAT:
            raise SuiteError(f"this is not a suite file of format {FORMAT}")
        stated = str(values.pop("content_hash", None) or "")
        try:
            suite = _adapter().validate_python(values)
        except ValidationError as error:
            raise SuiteError(f"the suite file is invalid: {first_error(error)}") from None
        for case in suite.cases:
            if case.image not in suite.image_by_slug or case.pair not in suite.pair_by_slug:
                raise SuiteError(
                    f"case {case.slug} names an image or pair that is not in the suite"
                )
        if stated and stated != suite.content_hash:
            raise SuiteError(
                f"the file was changed: its content_hash is {stated[:12]}, "
                f"but its content has {suite.content_hash[:12]}"
            )
        return suite

    @classmethod
    def read(cls, path: Path) -> Suite:
        try:
            return cls.from_dict(read_json_file(path))
        except (OSError, ValueError, SuiteError) as error:
            raise SuiteError(f"{path}: {error}") from error


@cache
def _adapter() -> TypeAdapter[Suite]:
    return TypeAdapter(Suite)
