"""Import of bundles (zip files of runs) and score files.

Imported runs are marked as played elsewhere. Score files add values of no-reference metrics to a
run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Prefetch
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from evaluation.analysis.events import STOPPED
from evaluation.analysis.stopping import MAX_STOP_AFTER, edits_saved
from evaluation.bundle.checks import DIFFERENT, Check, verdict
from evaluation.bundle.document import Bundle, BundleError
from evaluation.bundle.verify import Verification
from evaluation.content.sources import pixel_sha256
from evaluation.editors.payloads import IMAGE_ADDRESS
from evaluation.images import EncodedImage, ImageError
from evaluation.measuring.subject import chain_subject
from evaluation.metrics import no_reference_metrics
from evaluation.metrics.score_file import (
    MAX_IN_RUN,
    ChainImages,
    ScoreFile,
    ScoreFileError,
    place_values,
)
from evaluation.records import MEASURES, ChainRecord, EditRecord, FileRecord
from leaderboard import standings
from leaderboard.content.loading import store_suite
from leaderboard.models import (
    Audit,
    Calibration,
    Case,
    Chain,
    EditingModel,
    MetricVersion,
    Run,
    RunReview,
    Score,
    StoredImage,
    Suite,
    Trip,
    TripStep,
)
from leaderboard.models.images import MAX_WEB_PIXELS
from leaderboard.models.runs import ChainState, Outcome, RunState

MODEL_FIELDS = (
    "name",
    "provider",
    "organisation",
    "editor",
    "open_weights",
    "licence",
    "homepage",
    "paper_url",
    "code_url",
)
#: Limits on an untrusted bundle: archive entries, bytes of JSON, pixels per image.
LIMITS = {
    "max_entries": 16_000,
    "max_document": 24 * 2**20,
    "max_pixels": MAX_WEB_PIXELS,
}
#: Limits on the notes on an edit: the number of notes, and the characters of each.
MAX_NOTES, MAX_NOTE_LENGTH = 20, 4_000


@dataclass(frozen=True)
class Imported:
    """The result of an import; `notes` are messages for readers of the run."""

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
    on_check: Callable[[Check], None] = lambda check: None,
) -> Imported:
    """Import a bundle and return its run. A second import returns the existing run.

    First all numbers are recomputed, as `convergebench verify` does. Raises BundleError if a
    number differs. With `anyway` the run is imported nevertheless, with `verified` False.
    `verified` is None if some numbers cannot be checked.
    """
    if run := imported_run(bundle):
        return Imported(run, False, run.provenance["bundle"]["checks"])
    stored_suite = Suite.objects.frozen().filter(content_hash=bundle.suite.content_hash).first()
    source_images = {} if stored_suite else _source_images(bundle)
    verification = Verification(bundle)
    counts: Counter[str] = Counter()
    different: list[str] = []
    for check in verification.checks():
        counts[check.verdict] += 1
        on_check(check)
        if check.verdict == DIFFERENT:
            different.append(f"{check.line}, {check.what}: {check.detail}")
    if different and not anyway:
        raise BundleError(
            f"{len(different)} of its values differ when recomputed: {'; '.join(different[:3])}"
        )
    suite = stored_suite or store_suite(bundle.suite, source_images)
    metrics, notes = calibrated_metrics(bundle, suite, verification)
    images = store_images(bundle)
    with transaction.atomic():
        run = write_run(
            bundle,
            suite,
            _model(bundle, model_slug),
            metrics,
            images,
            verified=verdict(counts),
            counts=dict(counts),
            published=publish,
        )
        standings.rebuild(run)
        standings.refresh_ranks(suite)
    run.refresh_from_db()
    return Imported(run, True, dict(counts), tuple(notes))


def imported_run(bundle: Bundle) -> Run | None:
    """Return the run that an earlier import of this bundle created, or None."""
    return Run.objects.filter(
        source=Run.Source.EXTERNAL, provenance__bundle__digest=bundle.digest
    ).first()


def store_images(bundle: Bundle) -> dict[str, StoredImage]:
    """Store each image of a bundle that can be decoded; return the stored images by hash.

    Call this before writing the run's rows. Images that no row refers to are deleted later.
    """
    document, by_hash = bundle.document, dict[str, StoredImage]()
    files = [
        *(edit for c in document.chains for t in c.trips for _, edit in t.edits),
        *(file for audit in document.audits for file in (audit.sent, audit.answer)),
    ]
    for file in files:
        data = bundle.image(file.sha256) if file and file.sha256 not in by_hash else None
        if data is None or file is None:
            continue
        try:
            image = EncodedImage.from_bytes(data, max_pixels=bundle.max_pixels)
        except ImageError:
            continue
        if image.sha256 != file.sha256:
            continue  # the bytes do not match the stated hash
        stored = by_hash[file.sha256] = StoredImage.objects.get_or_store(image)
        # Make these now, so that no web process decodes untrusted images.
        stored.write_copy(image)
        stored.write_thumbnail(image)
    return by_hash


def write_run(
    bundle: Bundle,
    suite: Suite,
    model: EditingModel,
    metrics: dict[str, MetricVersion],
    images: Mapping[str, StoredImage],
    *,
    verified: bool | None,
    counts: dict[str, int],
    **fields: Any,
) -> Run:
    """Write the run of this bundle with its chains, trips, scores and audits.

    Standings are not written. `fields` override values from the bundle.
    """
    stated, chains, core = bundle.document.run, bundle.document.chains, bundle.suite
    trips = [trip for chain in chains for trip in chain.trips]
    edits = [edit for trip in trips for _, edit in trip.edits if edit]
    repeats = {case: bundle.arm.repeats_of(core.repeats_of(case)) for case in core.cases}
    pinned = {
        name: values
        if name in metrics or name in no_reference_metrics() or "missing" in values
        else {"missing": "left out here"}
        for name, values in stated.metrics.items()
    }
    finished = _moment(stated.finished_at) or timezone.now()
    about = {"digest": bundle.digest, "checks": counts, "images": bundle.document.images}
    provenance = fields.pop("provenance", stated.provenance)
    copied = ("secret", "earlier_secrets", "orders", "flags", *RunReview.MEDIANS)
    run = Run.objects.create(
        editing_model=model,
        suite=suite,
        state=RunState.FINISHED,
        arm=bundle.arm.to_dict(),
        arm_digest=bundle.arm.digest,
        stop_after=min(stated.stop_after, MAX_STOP_AFTER),
        metrics=pinned,
        provenance=provenance | {"bundle": about},
        source=Run.Source.EXTERNAL,
        verified=verified,
        chains_total=sum(repeats.values()),
        chains_done=len(chains),
        edits_total=sum(repeats[case] * core.edits_of(case) for case in core.cases),
        edits_done=len(edits),
        edits_saved=edits_saved(
            suite.trips, [len(chain.trips) for chain in chains if chain.outcome in STOPPED]
        ),
        edit_seconds=sum(edit.seconds or 0.0 for edit in edits),
        trips_scored=sum(trip.step is not None for trip in trips),
        started_at=_moment(stated.started_at),
        finished_at=min(finished, timezone.now()),
        **({name: getattr(stated, name) for name in copied} | fields),
    )
    _chains(bundle, run, metrics, images)
    _audits(bundle, run, images)
    return run


def calibrated_metrics(
    bundle: Bundle, suite: Suite, verification: Verification, *, only_computable: bool = False
) -> tuple[dict[str, MetricVersion], list[str]]:
    """Return the metrics to import, calibrated on the suite, and notes on other metrics.

    A calibration has the metric's reference distances of an image, such as the distance of a blank
    card. All runs share the calibrations of an image, so untrusted calibrations are never imported.
    Missing calibrations are computed on this site. A metric that this site cannot compute is
    left out if one of its calibrations is missing; with `only_computable`, it is always left out.
    """
    versions: dict[str, MetricVersion] = {}
    missing_by_image: dict[str, list[str]] = {}
    notes = []
    images = {p.slug: p for p in suite.images.select_related("stored") if p.stored}
    for name in bundle.scored_metrics:
        pinned, why = bundle.document.run.metrics[name], verification.unable.get(name)
        values: dict[str, Any] = {
            "name": name,
            "version": pinned.get("version", ""),
            "weights_sha256": pinned.get("weights_sha256", ""),
        }
        version = MetricVersion.objects.filter(**values).first()
        calibrated = set(
            version.calibrations.values_list("pixels_sha256", flat=True) if version else ()
        )
        missing = [slug for slug, p in images.items() if p.pixels_sha256 not in calibrated]
        if why and (missing or only_computable):
            notes.append(f"{name} is left out because it cannot be computed here: {why}")
            continue
        versions[name] = version or MetricVersion.objects.get_or_create(**values)[0]
        for slug in missing:
            missing_by_image.setdefault(slug, []).append(name)
    for slug, names in missing_by_image.items():
        image, made = images[slug], verification.calibrations.get(slug)
        if not made and image.stored:
            subject = chain_subject(suite.core.image_by_slug[slug])
            made = verification.scorer.only(names).calibrate(image.stored.read(), subject)
        computed = {versions[name]: c for name in names if (c := (made or {}).get(name))}
        Calibration.objects.store(image.pixels_sha256, computed)
    return versions, notes


def _chains(
    bundle: Bundle,
    run: Run,
    metrics: dict[str, MetricVersion],
    images: Mapping[str, StoredImage],
) -> None:
    cases = {case.slug: case for case in Case.objects.filter(suite=run.suite)}
    for line in bundle.document.chains:
        case = cases.get(line.case)
        if case is None:
            raise BundleError(f"{line.case} is not a case of {run.suite}")
        scored = sum(trip.step is not None for trip in line.trips)
        chain = Chain.objects.create(
            run=run,
            case=case,
            repeat=line.repeat,
            state=ChainState.PLAYED,
            outcome=Outcome(line.outcome),
            outcome_text=line.outcome_text,
            trips_played=sum(trip.backward is not None for trip in line.trips),
            trips_scored=scored,
            quality=line.quality,
        )
        _trips(chain, line, metrics, images)


def _trips(
    chain: Chain,
    line: ChainRecord,
    metrics: dict[str, MetricVersion],
    images: Mapping[str, StoredImage],
) -> None:
    now = timezone.now()
    rows = [
        Trip(
            chain=chain,
            number=trip.number,
            **_answer("edited", trip.forward, images),
            **_answer("restored", trip.backward, images),
            **{name: getattr(trip, name) for name in MEASURES},
            scored_at=now if trip.step is not None else None,
        )
        for trip in line.trips
    ]
    made = {row.number: row for row in Trip.objects.bulk_create(rows)}
    TripStep.objects.bulk_create(
        TripStep(
            chain=chain,
            number=trip.number,
            place=place,
            name=step.name,
            image=_stored_image(images, step),
            seed=step.seed,
            seconds=step.seconds,
            notes=notes_to_store(step),
        )
        for trip in line.trips
        for place, step in enumerate(trip.between, start=2)
    )
    Score.objects.bulk_create(
        Score(trip=made[trip.number], metric=metrics[name], distance=distance)
        for trip in line.trips
        for name, distance in trip.scores.items()
        if name in metrics
    )


def _answer(
    step: str, edit: EditRecord | None, images: Mapping[str, StoredImage]
) -> dict[str, Any]:
    """Return the fields of a trip that describe one answer; empty without an answer."""
    if edit is None:
        return {}
    return Trip.answer_fields(
        step, _stored_image(images, edit), edit.seed, edit.seconds, notes_to_store(edit)
    )


def _audits(bundle: Bundle, run: Run, images: Mapping[str, StoredImage]) -> None:
    chains = {(chain.case.slug, chain.repeat): chain for chain in run.chains.select_related("case")}
    Audit.objects.bulk_create(
        Audit(
            chain=chain,
            number=line.number,
            kind=line.kind,
            outcome=line.outcome,
            words=line.words[:200],
            sent=_stored_image(images, line.sent),
            answer=_stored_image(images, line.answer),
            seed=line.seed,
            seconds=line.seconds,
            finding=line.finding,
        )
        for line in bundle.document.audits
        if (chain := chains.get((line.case, line.repeat)))
    )


def notes_to_store(edit: EditRecord) -> dict[str, Any]:
    """Return the notes on an edit that may be stored.

    Notes cannot be verified, and pages show some of them. URLs in notes are never fetched.
    """
    notes = {
        name[:80]: value
        for name, value in list(edit.notes.items())[:MAX_NOTES]
        if name != IMAGE_ADDRESS and len(json.dumps(value)) <= MAX_NOTE_LENGTH
    }
    converted = notes.pop("converted", None)
    if isinstance(converted, list) and all(isinstance(words, str) for words in converted):
        notes["converted"] = converted
    return notes


def _stored_image(images: Mapping[str, StoredImage], file: FileRecord | None) -> StoredImage | None:
    return images.get(file.sha256) if file else None


def _moment(text: str | None) -> Any:
    try:
        moment = parse_datetime(text) if text else None
    except ValueError:
        return None
    return moment if moment and timezone.is_aware(moment) else None


def _source_images(bundle: Bundle) -> dict[str, EncodedImage]:
    """Return the source images of a suite that is new to this site.

    Raises BundleError if an image is missing or differs from the suite.
    """
    suite = bundle.suite
    named = f"suite {suite.slug} v{suite.version} ({suite.content_hash[:12]})"
    if Suite.objects.filter(slug=suite.slug, version=suite.version).exists():
        raise BundleError(f"{named} differs from the suite with that name and version on this site")
    files = {row.slug: row.sha256 for row in bundle.document.sources}
    by_slug = {}
    for image in suite.images:
        data = bundle.image(files.get(image.slug, ""))
        if data is None:
            raise BundleError(
                f"{named} is not known here, and the bundle lacks its source images: "
                "import a bundle with images, or load the suite first"
            )
        try:
            by_slug[image.slug] = EncodedImage.from_bytes(data)
        except ImageError as error:
            raise BundleError(f"source {image.slug}: {error}") from None
        # A frozen suite is defined by its pixels, so a source with different pixels is refused.
        if pixel_sha256(by_slug[image.slug].decoded) != image.sha256:
            raise BundleError(
                f"source {image.slug} does not have the pixels that its suite requires"
            )
    return by_slug


def _model(bundle: Bundle, slug: str) -> EditingModel:
    """Return the model's row. A new row is created from the bundle, without options."""
    stated = bundle.document.model
    fields = {name: getattr(stated, name) for name in MODEL_FIELDS}
    notes = "Entered by an imported bundle. The model cannot be played here until it gets options."
    return EditingModel.objects.get_or_create(
        slug=slug or stated.slug, defaults=fields | {"notes": notes}
    )[0]


@transaction.atomic
def import_scores(run: Run, file: ScoreFile) -> None:
    """Write the values of a score file to the run's chains and no-reference results.

    Raises ScoreFileError, before anything is written, if the file names an image that the run
    does not have. A metric from an earlier file is replaced.
    """
    run = Run.objects.select_for_update(of=("self",)).select_related("suite").get(pk=run.pk)
    if run.state != RunState.FINISHED:
        raise ScoreFileError(f"run {run.pk} is {run.get_state_display().lower()}, not finished")
    files = {**run.provenance.get("score_files", {}), **file.metrics}
    if len(files) > MAX_IN_RUN:
        raise ScoreFileError(f"run {run.pk} would have more than {MAX_IN_RUN} imported metrics")
    trips = Prefetch("trips", Trip.objects.select_related("restored").order_by("number"))
    chains = list(run.chains.select_related("case__image__stored").prefetch_related(trips))
    images = {chain.pk: _images(chain) for chain in chains}
    place_values(file, images.values())
    for chain in chains:
        others = {n: v for n, v in chain.quality.items() if n not in file.metrics}
        chain.quality = others | images[chain.pk].quality
    Chain.objects.bulk_update(chains, ["quality"], batch_size=200)
    run.provenance = {**run.provenance, "score_files": files}
    run.save(update_fields=["provenance"])
    standings.write_no_reference(run, chains)


def _images(chain: Chain) -> ChainImages:
    source = chain.case.image.stored
    restored = [trip.restored.sha256 if trip.restored else "" for trip in chain.trips.all()]
    return ChainImages(
        chain.case.slug,
        chain.repeat,
        source.sha256 if source else "",
        tuple(restored[: chain.trips_scored]),
    )
