"""Load the benchmark's content into the database: images, pairs, models, suites.

Loading may be repeated: existing rows, which curators may have changed, stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import transaction
from django.utils import timezone

from evaluation.content import catalog, curation, sources, suite_builder
from evaluation.content.suites import Suite as CoreSuite
from evaluation.content.suites import origin_of
from evaluation.images import EncodedImage, ImageError
from leaderboard.models import (
    Case,
    EditingModel,
    EditPair,
    SourceImage,
    StoredImage,
    Suite,
    SuiteImage,
)


@dataclass
class Loaded:
    """The result of loading: how many rows are new, and why other content was refused."""

    new: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def count(self, what: str) -> None:
        self.new[what] = self.new.get(what, 0) + 1


def load_edit_pairs(loaded: Loaded) -> None:
    """Load the shipped edit pairs; existing pairs keep their curated text."""
    for pair in catalog.edit_pairs():
        fields = asdict(pair)
        for name in ("slug", "rule", "rules"):
            del fields[name]
        if EditPair.objects.get_or_create(slug=pair.slug, defaults=fields)[1]:
            loaded.count("edit pairs")


def load_editing_models(loaded: Loaded) -> None:
    """Load the shipped editing models; existing rows stay as they are."""
    for row in catalog.editing_models():
        fields = {name: value for name, value in row.items() if name != "slug"}
        if EditingModel.objects.get_or_create(slug=row["slug"], defaults=fields)[1]:
            loaded.count("editing models")


def checked_image(data: bytes, licence: str, attribution: str) -> EncodedImage:
    """Decode a new source image. Raises curation.Rejected with every reason."""
    hashed = SourceImage.objects.exclude(perceptual_hash="")
    return curation.check(
        data,
        licence=licence,
        attribution=attribution,
        known=dict(hashed.values_list("slug", "perceptual_hash")),
    )


def add_source_image(fields: Mapping[str, Any], data: bytes) -> SourceImage:
    """Create a source image with its file in one transaction. Raises curation.Rejected."""
    image = checked_image(data, fields["licence"], fields.get("attribution", ""))
    with transaction.atomic():
        return SourceImage.objects.create(
            **fields,
            stored=StoredImage.objects.get_or_store(image),
            perceptual_hash=curation.fingerprint(image.decoded),
        )


def load_source_image(source: catalog.SourceImage, loaded: Loaded) -> SourceImage | None:
    """Return the row of a shipped image, created from the original file if missing."""
    existing = SourceImage.objects.filter(slug=source.slug).first()
    if existing:
        return existing
    fields = asdict(source) | {"annotations": source.annotations.to_dict()}
    del fields["sha256"]
    try:
        row = add_source_image(fields, sources.original(source.origin, source.sha256))
    except (sources.OriginError, curation.Rejected) as error:
        loaded.refused[source.slug] = str(error)
        return None
    loaded.count("source images")
    return row


def load_suite(suite: CoreSuite, loaded: Loaded) -> Suite | None:
    """Load a frozen suite and its rows in one transaction; an existing suite is not changed."""
    existing = Suite.objects.filter(slug=suite.slug, version=suite.version).first()
    if existing:
        if existing.content_hash != suite.content_hash:
            loaded.refused[f"suite {suite.slug} v{suite.version}"] = (
                "another suite with this name and version is already frozen here; raise the version"
            )
        return existing
    try:
        prepared = {
            p.slug: EncodedImage.from_image(sources.load_prepared(p, suite.size))
            for p in suite.images
        }
    except (sources.OriginError, ImageError) as error:
        loaded.refused[f"suite {suite.slug} v{suite.version}"] = str(error)
        return None
    row = store_suite(suite, prepared)
    loaded.count("suites")
    return row


@transaction.atomic
def store_suite(
    suite: CoreSuite, prepared: Mapping[str, EncodedImage], row: Suite | None = None
) -> Suite:
    """Store a frozen suite: its definition, prepared images and cases."""
    row = row or Suite(slug=suite.slug, version=suite.version)
    row.title, row.description = suite.title, suite.description
    row.trips, row.size, row.repeats = suite.trips, suite.size, suite.repeats
    for draft in suite_builder.shipped_drafts():
        if draft.slug == suite.slug:
            row.importance = row.importance or draft.importance
            row.stop_after = row.stop_after or draft.stop_after
    row.status, row.frozen_at = Suite.Status.FROZEN, timezone.now()
    row.definition, row.content_hash = suite.to_dict(), suite.content_hash
    row.save()
    originals = SourceImage.objects.in_bulk([p.slug for p in suite.images], field_name="slug")
    rows = {
        image.slug: SuiteImage.objects.create(
            suite=row,
            slug=image.slug,
            source_image=originals.get(image.slug),
            stored=StoredImage.objects.get_or_store(prepared[image.slug]),
            pixels_sha256=image.sha256,
            title=image.title,
            kind=image.kind,
            licence=image.licence,
            attribution=image.attribution,
        )
        for image in suite.images
    }
    pairs = EditPair.objects.in_bulk([p.slug for p in suite.pairs], field_name="slug")
    Case.objects.bulk_create(
        Case(
            suite=row,
            slug=case.slug,
            image=rows[case.image],
            edit_pair=pairs.get(case.pair),
            pair_slug=pair.slug,
            pair_title=pairs[pair.slug].title if pair.slug in pairs else pair.slug,
            category=pair.category,
            kind=rows[case.image].kind,
            origin=origin_of(suite.image_by_slug[case.image]),
            forward=pair.forward,
            backward=pair.backward,
            position=position,
            repeats=suite.repeats_of(case),
            edits=suite.edits_of(case),
            steps=[
                [[step.name, step.letter, step.prompt] for step in trip.steps]
                for trip in (pair.cycle if pair.shape else ())
            ],
        )
        for position, case in enumerate(suite.cases)
        for pair in [suite.pair_by_slug[case.pair]]
    )
    return row
