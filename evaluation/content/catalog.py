"""Read the benchmark's content files: source images, edit pairs, editing models, suites.

The JSON files are Django fixtures too; this module reads them without Django. They are in
`fixtures/` of a checkout, or `evaluation/fixtures/` of an installed package.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, TypeAdapter, ValidationError

from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.content.datasheet import POSES
from evaluation.content.edit_types import TYPES
from evaluation.content.operators import DEGRADATIONS, OPERATORS
from evaluation.content.placement import PLACES
from evaluation.content.rules import Rule
from evaluation.content.suites import (
    ONLY_FIELDS,
    EditPair,
    Slug,
    Suite,
    SuiteError,
    find_suite,
)
from evaluation.errors import UserFacingError, first_error

KINDS = ("face", "object", "scene")
MADE = ("real", "rendered", "generated")
STATUSES = ("draft", "active", "retired")
CHANGES = ("exact", "local", "global", "none", "operator")
#: The categories, which have equal weights. Replication and restoration have separate suites.
CATEGORIES = {
    "accessories": "Accessories",
    "appearance": "Clothing, hair and face",
    "objects": "Objects",
    "colour": "Colour",
    "light": "Light, weather and season",
    "style": "Style",
    "text": "Text",
    "geometry": "Geometry",
    "replication": "Replication",
    "restoration": "Restoration",
}
#: The default wording of a pair; all other wordings are variants.
PLAIN = "plain"
#: A sentence that can be appended to any wording, to measure its effect.
FIDELITY = "Keep everything else exactly the same."
REVERSIBILITIES = ("exact", "clean", "partial", "destroys", "invents")

Row = TypeVar("Row")


def _one_of(names: Collection[str]) -> AfterValidator:
    def check(value: str) -> str:
        if value not in names:
            raise ValueError(f"{value!r} is not one of {', '.join(name for name in names if name)}")
        return value

    return AfterValidator(check)


def _filled(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value


Filled = Annotated[str, AfterValidator(_filled)]
Kind = Annotated[str, _one_of(KINDS)]
Status = Annotated[str, _one_of(STATUSES)]


class CatalogError(UserFacingError):
    """An invalid content file; the message names file, row and field."""


@dataclass(frozen=True)
class SourceImage:
    """A source image before cropping; `sha256` is the hash of its file."""

    slug: Slug
    origin: Filled
    sha256: Filled
    kind: Kind
    made: Annotated[str, _one_of(MADE)]
    title: Filled
    author: str
    licence: Filled
    attribution: Filled
    subkind: str = ""
    source_url: str = ""
    contains: tuple[str, ...] = ()
    pose: Annotated[str, _one_of(("", *POSES))] = ""  # of the head in a portrait, judged by eye
    annotations: Annotations = UNANNOTATED  # in fractions of the original
    status: Status = "active"

    __pydantic_config__ = ONLY_FIELDS


@dataclass(frozen=True)
class Variant:
    """Another wording of a pair, to measure how much the wording matters."""

    name: str
    forward: Filled
    backward: Filled

    __pydantic_config__ = ONLY_FIELDS

    def with_fidelity(self) -> Variant:
        """Return the same wording followed by the sentence FIDELITY."""
        return Variant(
            f"{self.name}, keep the rest",
            f"{self.forward} {FIDELITY}",
            f"{self.backward} {FIDELITY}",
        )


@dataclass(frozen=True)
class CatalogPair(EditPair):
    """An edit pair with the fields that only curators use."""

    category: Annotated[str, _one_of(CATEGORIES)]
    forward: Filled
    backward: Filled
    change: Annotated[str, _one_of(CHANGES)]
    reversibility: Annotated[str, _one_of(REVERSIBILITIES)] = "clean"
    kinds: tuple[Kind, ...] = ()
    place: Annotated[str, _one_of(("", *PLACES))] = ""
    type: Annotated[str, _one_of(("", *TYPES))] = ""
    title: Filled = ""
    notes: str = ""
    status: Status = "active"
    variants: tuple[Variant, ...] = field(default=())
    rule: Rule | None = None  # how reference editors make the edit; None if they cannot
    #: For a pair with a chain shape (evaluation.content.shapes): the rules of steps whose prompts
    #: no other pair has, by capital letter.
    rules: Mapping[str, Rule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        by_change: Mapping[str, Collection[str]] = {"exact": OPERATORS, "operator": DEGRADATIONS}
        operators = by_change.get(self.change, ("",))
        if self.operator not in operators:
            raise ValueError(
                f"operator is {self.operator!r}, which does not fit the change {self.change!r}"
            )
        if self.change == "local" and not self.object.strip():
            raise ValueError("object is empty")
        self.cycle  # noqa: B018, raises ValueError if the shape is invalid
        if unknown := sorted(self.rules.keys() - {step.name for step in self.steps}):
            raise ValueError(f"rules: {', '.join(unknown)} is not a step of the shape")
        if self.shape and self.variants:
            raise ValueError("variants: a pair with a shape cannot have variants")

    @property
    def wordings(self) -> tuple[Variant, ...]:
        """All wordings (plain, short, long, colloquial), each without and with FIDELITY."""
        plain = (Variant(PLAIN, self.forward, self.backward), *self.variants)
        return tuple(each for variant in plain for each in (variant, variant.with_fidelity()))

    @property
    def pair(self) -> EditPair:
        """The edit pair as stored in a frozen suite."""
        return EditPair(**{item.name: getattr(self, item.name) for item in fields(EditPair)})


def folder() -> Path:
    """Return the folder of the content files."""
    here = Path(__file__).resolve().parents[1]
    # The checkout's folder first: an editable install may also have a stale copy of it.
    for candidate in (here.parent / "fixtures", here / "fixtures"):
        if (candidate / "edit_pairs.json").is_file():
            return candidate
    raise CatalogError(
        f"no fixtures folder in {here.parent} or {here}: install the package again, or use a full "
        "checkout"
    )


def source_images() -> list[SourceImage]:
    """Return every source image of source_images.json, in file order."""
    return list(_read("source_images.json", SourceImage))


def edit_pairs() -> list[CatalogPair]:
    """Return every edit pair of edit_pairs.json, in file order."""
    return list(_read("edit_pairs.json", CatalogPair))


def editing_models() -> list[dict[str, Any]]:
    """Return every row of editing_models.json as a dictionary, in file order."""
    return [dict(row) for _, row in _rows("editing_models.json")]


def suites() -> list[Suite]:
    """Return every shipped suite, smallest first."""
    all_suites = [Suite.read(path) for path in sorted((folder() / "suites").glob("*.json"))]
    return sorted(all_suites, key=lambda suite: (suite.edits, suite.slug, suite.version))


def suite(name: str) -> Suite:
    """Return a shipped suite by name: "smoke" (the newest version) or "smoke-v2".

    Raises SuiteError listing the available names.
    """
    all_suites = suites()
    match = find_suite(name, all_suites)
    if match is None:
        names = ", ".join(s.slug for s in all_suites)
        raise SuiteError(f"there is no suite {name!r}; there are {names}")
    return match


def _read(filename: str, kind: type[Row]) -> Iterator[Row]:
    seen: set[str] = set()
    adapter = TypeAdapter(kind)
    for where, row in _rows(filename):
        try:
            item = adapter.validate_python(row)
        except ValidationError as error:
            raise CatalogError(f"{where}: {first_error(error)}") from None
        if row["slug"] in seen:
            raise CatalogError(f"{where}: slug {row['slug']!r} occurs twice")
        seen.add(row["slug"])
        yield item


def _rows(filename: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each row: its location, which messages name, and its fields."""
    path = folder() / filename
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CatalogError(f"{path}: {error}") from error
    if not isinstance(rows, list):
        raise CatalogError(f"{path}: expected a list of rows")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict) or not isinstance(row.get("fields"), dict):
            raise CatalogError(f"{path}: row {number} has no 'fields'")
        slug = row["fields"].get("slug")
        yield f"{path}: row {number} ({slug or 'without slug'})", row["fields"]
