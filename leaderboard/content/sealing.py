"""Sealed twins of suites: the same kinds of edits on private images and wordings.

A folder holds the images and `pictures.json`, a list of objects with `file`, `kind` and, if
known, `contains` and `annotations`. An optional `wordings.json` rewords pairs in the owner's
words: {"glasses": {"forward": "…", "backward": "…"}}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.db import transaction

from evaluation.content import sources, suite_builder
from evaluation.content.annotations import Annotations
from evaluation.content.suites import EditPair, SuiteError
from evaluation.content.suites import Suite as CoreSuite
from evaluation.images import ImageError, Picture
from leaderboard.content.loading import store_suite
from leaderboard.models import Suite


@dataclass(frozen=True)
class SealedPicture:
    """A sealed source image: only the fields that a suite needs."""

    slug: str
    kind: str
    contains: tuple[str, ...]
    origin: str = "sealed"
    title: str = "sealed"
    author: str = ""
    licence: str = "sealed"
    attribution: str = "sealed"
    subkind: str = ""
    source_url: str = ""
    made: str = "real"


def seal(suite: CoreSuite, folder: Path, *, narrow: bool = False) -> Suite:
    """Make a sealed twin of the suite from a folder. Raises SuiteError."""
    pairs = _worded(suite.pairs, _object(folder / "wordings.json", {}))
    candidates, prepared = [], {}
    for number, row in enumerate(_rows(folder / "pictures.json"), start=1):
        slug = f"sealed-{number}"
        image = _image(folder, row)
        source = SealedPicture(slug, row["kind"], tuple(row.get("contains", ())))
        try:
            places = Annotations.from_dict(row.get("annotations", {}))
        except ValueError as error:
            raise SuiteError(f"pictures.json, {row['file']}: annotations: {error}") from None
        places = sources.prepare_annotations(places, image.size, suite.size)
        ready = sources.prepare(image, suite.size)
        prepared[slug] = Picture.from_image(ready)
        candidates.append(suite_builder.from_facts(source, suite_builder.facts(ready), places))
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
    used = {picture.slug: prepared[picture.slug] for picture in twin.pictures}
    with transaction.atomic():
        return store_suite(twin, used, row=Suite(slug=slug, version=twin.version, sealed=True))


def _worded(
    pairs: tuple[EditPair, ...], wordings: Mapping[str, Mapping[str, str]]
) -> list[EditPair]:
    """Return the pairs, reworded where the owner gives wordings."""
    if unknown := set(wordings) - {pair.slug for pair in pairs}:
        raise SuiteError(f"wordings.json: the suite has no pair {', '.join(sorted(unknown))}")
    reworded = []
    for pair in pairs:
        prompts = wordings.get(pair.slug, {})
        if prompts and set(prompts) != {"forward", "backward"}:
            raise SuiteError(f"wordings.json, {pair.slug}: forward and backward are needed")
        reworded.append(
            replace(pair, forward=prompts["forward"], backward=prompts["backward"])
            if prompts
            else pair
        )
    return reworded


def _rows(path: Path) -> list[dict[str, Any]]:
    rows = _object(path, None)
    if not isinstance(rows, list) or not rows:
        raise SuiteError(f"{path}: expected a list of pictures")
    for row in rows:
        if not isinstance(row, dict) or not {"file", "kind"} <= set(row):
            raise SuiteError(f"{path}: every picture needs 'file' and 'kind'")
    return rows


def _object(path: Path, default: Any) -> Any:
    if default is not None and not path.is_file():
        return default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SuiteError(f"{path}: {error}") from None


def _image(folder: Path, row: Mapping[str, Any]) -> Any:
    path = folder / str(row["file"])
    try:
        return Picture.from_bytes(path.read_bytes()).image
    except (OSError, ImageError) as error:
        raise SuiteError(f"{path}: {error}") from None
