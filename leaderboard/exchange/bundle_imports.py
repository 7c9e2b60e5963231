"""A run bundle of somebody else as a run of this site: external, marked, never ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from evaluation.bundle.checks import Check, verdict
from evaluation.bundle.format import Bundle, BundleError, ChainLine, FileRow
from evaluation.bundle.verification import Verification
from evaluation.content.sources import pixel_sha256
from evaluation.images import ImageError, Picture
from evaluation.measuring.scoring import Scorer
from evaluation.statistics.events import STOPPED
from evaluation.statistics.stopping import MOST, edits_saved
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
    Score,
    StoredImage,
    Suite,
    Trip,
)
from leaderboard.models.runs import ChainState, Outcome, RunState

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
    look: Callable[[Check], None] = lambda check: None,
) -> Imported:
    """The run of this bundle, made once however often it is imported.

    Its numbers are recomputed first, as `convergebench verify` does: `verified` is
    True when all are equal, False when one differs, None when some cannot be checked.
    """
    before = Run.objects.filter(
        source=Run.Source.EXTERNAL, provenance__bundle__digest=bundle.digest
    ).first()
    if before:
        return Imported(before, False, before.provenance["bundle"]["checks"])
    known = Suite.objects.frozen().filter(content_hash=bundle.suite.content_hash).first()
    prepared = {} if known else _prepared(bundle)
    verification = Verification(bundle)
    counts: Counter[str] = Counter()
    for check in verification.checks():
        counts[check.verdict] += 1
        look(check)
    with transaction.atomic():
        suite = known or store_suite(bundle.suite, prepared)
        model = _model(bundle, model_slug)
        metrics, notes = _metrics(bundle, suite, verification.scorer, verification.unable)
        run = _run(bundle, suite, model, metrics, dict(counts), publish)
        _chains(bundle, run, metrics)
        _audits(bundle, run)
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


def _metrics(
    bundle: Bundle, suite: Suite, scorer: Scorer, unable: dict[str, str]
) -> tuple[dict[str, MetricVersion], list[str]]:
    """The metrics to take over, and what is said of the others.

    A calibration belongs to a picture and serves every run, so a stranger's is never
    taken: those that are missing are made here, and a metric that cannot is left out.
    """
    kept: dict[str, MetricVersion] = {}
    notes = []
    pictures = {p.pixels_sha256: p for p in suite.pictures.select_related("stored")}
    for name in bundle.scored_metrics:
        pinned = bundle.document.run.metrics[name]
        version = MetricVersion.objects.get_or_create(
            name=name,
            version=pinned.get("version", ""),
            weights_sha256=pinned.get("weights_sha256", ""),
        )[0]
        here = set(version.calibrations.values_list("pixels_sha256", flat=True))
        lacking = [p for sha, p in pictures.items() if sha not in here]
        if lacking and name in unable:
            notes.append(f"{name} is left out, as it cannot be calibrated here: {unable[name]}")
            continue
        for picture in lacking:
            if picture.stored is None:
                continue
            made = scorer.only([name]).calibrate(picture.stored.read())[name]
            if made:
                Calibration.objects.create(
                    pixels_sha256=picture.pixels_sha256,
                    metric=version,
                    blank=made.blank,
                    ladder={str(q): d for q, d in made.ladder.items()},
                )
        kept[name] = version
    return kept, notes


def _run(
    bundle: Bundle,
    suite: Suite,
    model: EditingModel,
    metrics: dict[str, MetricVersion],
    counts: dict[str, int],
    publish: bool,
) -> Run:
    stated, chains = bundle.document.run, bundle.document.chains
    trips = [trip for chain in chains for trip in chain.trips]
    halves = [half for trip in trips for half in (trip.forward, trip.backward) if half]
    pinned = {
        name: values if name in metrics or "missing" in values else {"missing": "left out here"}
        for name, values in stated.metrics.items()
    }
    finished = _moment(stated.finished_at) or timezone.now()
    core = bundle.suite
    asked = sum(bundle.arm.repeats_of(core.repeats_of(case)) for case in core.cases)
    about = {"digest": bundle.digest, "checks": counts, "pictures": bundle.document.pictures}
    return Run.objects.create(
        editing_model=model,
        suite=suite,
        state=RunState.FINISHED,
        secret=stated.secret,
        earlier_secrets=stated.earlier_secrets,
        arm=bundle.arm.to_dict(),
        arm_digest=bundle.arm.digest,
        stop_after=min(stated.stop_after, MOST),
        metrics=pinned,
        provenance=stated.provenance | {"bundle": about},
        source=Run.Source.EXTERNAL,
        verified=verdict(counts),
        published=publish,
        flags=stated.flags,
        marks_kept=stated.marks_kept,
        loss_under_audit=stated.loss_under_audit,
        changed_elsewhere=stated.changed_elsewhere,
        chains_total=asked,
        chains_done=len(chains),
        edits_total=asked * suite.trips * 2,
        edits_done=len(halves),
        edits_saved=edits_saved(
            suite.trips, [len(chain.trips) for chain in chains if chain.outcome in STOPPED]
        ),
        edit_seconds=sum(half.seconds or 0.0 for half in halves),
        trips_scored=sum(trip.step is not None for trip in trips),
        started_at=_moment(stated.started_at),
        finished_at=min(finished, timezone.now()),
    )


def _chains(bundle: Bundle, run: Run, metrics: dict[str, MetricVersion]) -> None:
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
        )
        _trips(bundle, chain, line, metrics)


def _trips(
    bundle: Bundle, chain: Chain, line: ChainLine, metrics: dict[str, MetricVersion]
) -> None:
    now = timezone.now()
    rows = [
        Trip(
            chain=chain,
            number=trip.number,
            edited=_stored(bundle, trip.forward),
            restored=_stored(bundle, trip.backward),
            edited_seed=trip.forward.seed if trip.forward else None,
            restored_seed=trip.backward.seed if trip.backward else None,
            edited_seconds=trip.forward.seconds if trip.forward else None,
            restored_seconds=trip.backward.seconds if trip.backward else None,
            edited_notes=trip.forward.notes if trip.forward else {},
            restored_notes=trip.backward.notes if trip.backward else {},
            reframed=trip.reframed,
            change_seen=trip.change_seen,
            change_measure=trip.change_measure,
            step=trip.step,
            from_source=trip.from_source,
            because=trip.because,
            worst_place=trip.worst_place,
            undo=trip.undo,
            evidence=trip.evidence,
            damage=trip.damage,
            scored_at=now if trip.step is not None else None,
        )
        for trip in line.trips
    ]
    made = {row.number: row for row in Trip.objects.bulk_create(rows)}
    Score.objects.bulk_create(
        Score(trip=made[trip.number], metric=metrics[name], distance=distance)
        for trip in line.trips
        for name, distance in trip.scores.items()
        if name in metrics
    )


def _audits(bundle: Bundle, run: Run) -> None:
    chains = {(chain.case.slug, chain.repeat): chain for chain in run.chains.select_related("case")}
    Audit.objects.bulk_create(
        Audit(
            chain=chain,
            number=line.number,
            kind=line.kind,
            outcome=line.outcome,
            words=line.words[:200],
            sent=_stored(bundle, line.sent),
            answer=_stored(bundle, line.answer),
            seed=line.seed,
            seconds=line.seconds,
            finding=line.finding,
        )
        for line in bundle.document.audits
        if (chain := chains.get((line.case, line.repeat)))
    )


def _stored(bundle: Bundle, half: FileRow | None) -> StoredImage | None:
    """The picture in storage; None where the bundle has none, or none that can be shown."""
    data = bundle.picture(half.sha256) if half else None
    if data is None:
        return None
    try:
        return StoredImage.objects.get_or_store(Picture.from_bytes(data))
    except ImageError:
        return None


def _moment(text: str | None) -> Any:
    try:
        found = parse_datetime(text) if text else None
    except ValueError:
        return None
    return found if found and timezone.is_aware(found) else None
