"""Sealed twins of suites: the same kinds of edits on private images, with private wordings.

The owner's folder contains the images and `images.json`, a list of objects with `file`, `kind` and
optionally `contains` and `annotations`. An optional `wordings.json` gives other prompts for edit
pairs: {"glasses": {"forward": "…", "backward": "…"}}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.db import transaction
from pydantic import TypeAdapter, ValidationError

from evaluation.content import sources, suite_builder
from evaluation.content.annotations import Annotations
from evaluation.content.catalog import SourceImage
from evaluation.content.suites import EditPair, SuiteError
from evaluation.content.suites import Suite as CoreSuite
from evaluation.errors import first_error
from evaluation.images import EncodedImage, ImageError
from evaluation.untrusted_json import read_json_file
from leaderboard.content.loading import store_suite
from leaderboard.models import Suite

SEALED = "sealed"


@dataclass(frozen=True)
class ImageRow:
    """A row of `images.json`."""

    file: str
    kind: str
    contains: tuple[str, ...] = ()
    annotations: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wording:
    """The owner's prompts for an edit pair."""

    forward: str
    backward: str


def seal(suite: CoreSuite, folder: Path, *, narrow: bool = False) -> Suite:
    """Create a sealed twin of the suite from the owner's folder. Raises SuiteError."""
    wordings: dict[str, Wording] = {}
    if (folder / "wordings.json").is_file():
        wordings = _read(folder / "wordings.json", dict[str, Wording])
    pairs = _with_wordings(suite.pairs, wordings)
    rows: list[ImageRow] = _read(folder / "images.json", list[ImageRow])
    if not rows:
        raise SuiteError("images.json: expected a list of images")
    candidates, prepared = [], {}
    for number, row in enumerate(rows, start=1):
        slug = f"sealed-{number}"
        image = _image(folder / row.file)
        try:
            annotations = Annotations.from_dict(row.annotations)
        except ValueError as error:
            raise SuiteError(f"images.json, {row.file}: annotations: {error}") from None
        source = SourceImage(
            slug=slug,
            origin=SEALED,
            sha256=SEALED,
            kind=row.kind,
            made="real",
            title=SEALED,
            author="",
            licence=SEALED,
            attribution=SEALED,
            contains=row.contains,
        )
        annotations = sources.prepare_annotations(annotations, image.size, suite.size)
        prepared_image = sources.prepare(image, suite.size)
        prepared[slug] = EncodedImage.from_image(prepared_image)
        candidates.append(
            suite_builder.from_facts(source, suite_builder.facts(prepared_image), annotations)
        )
    slug = f"{suite.slug}-sealed"
    newest = Suite.objects.filter(slug=slug).order_by("-version").first()
    draft = suite_builder.Draft(
        slug=slug,
        version=newest.version + 1 if newest else 1,
        title=f"{suite.title}, sealed",
        trips=suite.trips,
        size=suite.size,
        cases=len(suite.cases),
    )
    twin = suite_builder.build(draft, candidates, pairs)
    if reasons := suite_builder.refusals(twin, narrow):
        raise SuiteError("; ".join(reasons[:5]))
    used = {image.slug: prepared[image.slug] for image in twin.images}
    with transaction.atomic():
        return store_suite(twin, used, row=Suite(slug=slug, version=twin.version, sealed=True))


def _with_wordings(pairs: Sequence[EditPair], wordings: Mapping[str, Wording]) -> list[EditPair]:
    """Return the pairs with the owner's prompts, if given. Raises SuiteError."""
    if unknown := set(wordings) - {pair.slug for pair in pairs}:
        raise SuiteError(f"wordings.json: the suite has no pair {', '.join(sorted(unknown))}")
    return [
        replace(pair, forward=words.forward, backward=words.backward)
        if (words := wordings.get(pair.slug))
        else pair
        for pair in pairs
    ]


def _read(path: Path, shape: Any) -> Any:
    """Parse a JSON file of the folder. Raises SuiteError."""
    try:
        return TypeAdapter(shape).validate_python(read_json_file(path))
    except ValidationError as error:
        raise SuiteError(f"{path.name}: {first_error(error)}") from None
    except (OSError, ValueError) as error:
        raise SuiteError(f"{path}: {error}") from None


def _image(path: Path) -> Any:
    try:
        return EncodedImage.from_bytes(path.read_bytes()).decoded
    except (OSError, ImageError) as error:
        raise SuiteError(f"{path}: {error}") from None
