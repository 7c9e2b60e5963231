"""A bundle that an operator imports from a file, with its suite where that is new here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from django.db import transaction

from evaluation.bundle.checks import DIFFERENT, Check, verdict
from evaluation.bundle.format import Bundle, BundleError
from evaluation.bundle.verification import Verification
from evaluation.content.sources import pixel_sha256
from evaluation.images import ImageError, Picture
from leaderboard import standings
from leaderboard.content.loading import store_suite
from leaderboard.imports.rows import calibrated_metrics, known_digest, store_pictures, write_run
from leaderboard.models import EditingModel, Run, Suite

MODEL_FIELDS = (
    *("name", "provider", "organisation", "editor", "open_weights", "licence"),
    *("homepage", "paper_url", "code_url"),
)


@dataclass(frozen=True)
class Imported:
    """What became of a bundle; `notes` say what a reader of the run should know."""

    run: Run
    new: bool
    counts: dict[str, int]
    notes: tuple[str, ...] = ()


def import_bundle(
    bundle: Bundle,
    *,
    model_slug: str = "",
    publish: bool = True,
    anyway: bool = False,
    look: Callable[[Check], None] = lambda check: None,
) -> Imported:
    """The run of this bundle, made once however often it is imported.

    Its numbers are recomputed first, as `convergebench verify` does. BundleError where one
    differs, unless it is to be imported `anyway`: then `verified` is False, as it is None
    where some cannot be checked.
    """
    if before := known_digest(bundle):
        return Imported(before, False, before.provenance["bundle"]["checks"])
    known = Suite.objects.frozen().filter(content_hash=bundle.suite.content_hash).first()
    prepared = {} if known else _prepared(bundle)
    verification = Verification(bundle)
    counts: Counter[str] = Counter()
    different: list[str] = []
    for check in verification.checks():
        counts[check.verdict] += 1
        look(check)
        if check.verdict == DIFFERENT:
            different.append(f"{check.line}, {check.what}: {check.detail}")
    if different and not anyway:
        raise BundleError(
            f"{len(different)} of its lines are not what they say: {'; '.join(different[:3])}"
        )
    suite = known or store_suite(bundle.suite, prepared)
    metrics, notes = calibrated_metrics(bundle, suite, verification)
    pictures = store_pictures(bundle)
    with transaction.atomic():
        run = write_run(
            bundle,
            suite,
            _model(bundle, model_slug),
            metrics,
            pictures,
            verified=verdict(counts),
            counts=dict(counts),
            published=publish,
        )
        standings.rebuild(run)
        standings.refresh_ranks(suite)
    run.refresh_from_db()
    return Imported(run, True, dict(counts), tuple(notes))


def _prepared(bundle: Bundle) -> dict[str, Picture]:
    """The source pictures of a suite that is new here; BundleError where they are not all here."""
    suite = bundle.suite
    named = f"suite {suite.slug} v{suite.version} ({suite.content_hash[:12]})"
    if Suite.objects.filter(slug=suite.slug, version=suite.version).exists():
        raise BundleError(f"{named} is not the suite of that name and version that is here")
    files = {row.slug: row.sha256 for row in bundle.document.sources}
    found = {}
    for picture in suite.pictures:
        data = bundle.picture(files.get(picture.slug, ""))
        if data is None:
            raise BundleError(
                f"{named} is not known here, and the bundle lacks its source pictures: "
                "import a bundle with pictures, or load the suite first"
            )
        try:
            found[picture.slug] = Picture.from_bytes(data)
        except ImageError as error:
            raise BundleError(f"source {picture.slug}: {error}") from None
        # A frozen suite is what its pixels are: one that lies does not get a row.
        if pixel_sha256(found[picture.slug].image) != picture.sha256:
            raise BundleError(f"source {picture.slug} does not have the pixels its suite names")
    return found


def _model(bundle: Bundle, slug: str) -> EditingModel:
    """The model's row, made from the bundle where there is none; its options stay behind."""
    stated = bundle.document.model
    fields = {name: getattr(stated, name) for name in MODEL_FIELDS}
    notes = "Entered by an imported bundle; it cannot be played here without options of its own."
    return EditingModel.objects.get_or_create(
        slug=slug or stated.slug, defaults=fields | {"notes": notes}
    )[0]
