"""A checked bundle as rows of this site: a run that is marked as played elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from evaluation.analysis.events import STOPPED
from evaluation.analysis.stopping import MOST, edits_saved
from evaluation.bundle.format import Bundle, BundleError, ChainLine, FileRow, HalfRow, TripLine
from evaluation.bundle.verification import Verification
from evaluation.editors.payloads import KEPT_AT
from evaluation.images import ImageError, Picture
from evaluation.measuring.subject import chain_subject
from evaluation.records import MEASURES
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
    TripStep,
)
from leaderboard.models.runs import ChainState, Outcome, RunState

#: Kept of what a bundle notes beside an edit: so many notes, of so many letters each.
MOST_NOTES, LONGEST_NOTE = 20, 4_000


def known_digest(bundle: Bundle) -> Run | None:
    """The run that this bundle became before."""
    return Run.objects.filter(
        source=Run.Source.EXTERNAL, provenance__bundle__digest=bundle.digest
    ).first()


def store_pictures(bundle: Bundle) -> dict[str, StoredImage]:
    """Every picture of a run that the bundle holds and that can be shown, stored, by its hash.

    Before the run's rows are written: what no row names in the end is collected as garbage.
    """
    document, found = bundle.document, dict[str, StoredImage]()
    files = [
        *(half for c in document.chains for t in c.trips for half in _halves(t)),
        *(file for audit in document.audits for file in (audit.sent, audit.answer)),
    ]
    for file in files:
        data = bundle.picture(file.sha256) if file and file.sha256 not in found else None
        if data is None or file is None:
            continue
        try:
            picture = Picture.from_bytes(data, max_pixels=bundle.max_pixels)
        except ImageError:
            continue
        if picture.sha256 != file.sha256:
            continue  # its name lies
        stored = found[file.sha256] = StoredImage.objects.get_or_store(picture)
        # Here, so that no web process ever decodes what strangers sent.
        stored.write_copy(picture)
        stored.write_thumbnail(picture)
    return found


def write_run(
    bundle: Bundle,
    suite: Suite,
    model: EditingModel,
    metrics: dict[str, MetricVersion],
    pictures: Mapping[str, StoredImage],
    *,
    verified: bool | None,
    counts: dict[str, int],
    **fields: Any,
) -> Run:
    """The run of this bundle with its chains, trips, scores and audits; not yet its standings.

    `fields` are those of the run that are known better than the bundle says.
    """
    stated, chains = bundle.document.run, bundle.document.chains
    trips = [trip for chain in chains for trip in chain.trips]
    halves = [half for trip in trips for half in _halves(trip) if half]
    pinned = {
        name: values if name in metrics or "missing" in values else {"missing": "left out here"}
        for name, values in stated.metrics.items()
    }
    finished = _moment(stated.finished_at) or timezone.now()
    about = {"digest": bundle.digest, "checks": counts, "pictures": bundle.document.pictures}
    provenance = fields.pop("provenance", stated.provenance)
    told: dict[str, Any] = {
        "metrics": pinned,
        "flags": stated.flags,
        "marks_kept": stated.marks_kept,
        "loss_under_audit": stated.loss_under_audit,
        "changed_elsewhere": stated.changed_elsewhere,
        "orders": stated.orders,
    }
    core = bundle.suite
    repeats = {case: bundle.arm.repeats_of(core.repeats_of(case)) for case in core.cases}
    told |= {
        "chains_total": sum(repeats.values()),
        "edits_total": sum(repeats[case] * core.edits_of(case) for case in core.cases),
    }
    run = Run.objects.create(
        editing_model=model,
        suite=suite,
        state=RunState.FINISHED,
        secret=stated.secret,
        earlier_secrets=stated.earlier_secrets,
        arm=bundle.arm.to_dict(),
        arm_digest=bundle.arm.digest,
        stop_after=min(stated.stop_after, MOST),
        provenance=provenance | {"bundle": about},
        source=Run.Source.EXTERNAL,
        verified=verified,
        chains_done=len(chains),
        edits_done=len(halves),
        edits_saved=edits_saved(
            suite.trips, [len(chain.trips) for chain in chains if chain.outcome in STOPPED]
        ),
        edit_seconds=sum(half.seconds or 0.0 for half in halves),
        trips_scored=sum(trip.step is not None for trip in trips),
        started_at=_moment(stated.started_at),
        finished_at=min(finished, timezone.now()),
        **(told | fields),
    )
    _chains(bundle, run, metrics, pictures)
    _audits(bundle, run, pictures)
    return run


def calibrated_metrics(
    bundle: Bundle, suite: Suite, verification: Verification, *, only_able: bool = False
) -> tuple[dict[str, MetricVersion], list[str]]:
    """The metrics to take over, calibrated on the suite, and what is said of the others.

    A calibration belongs to a picture and serves every run, so a stranger's is never
    taken: those that are missing are made here, and a metric that cannot is left out. With
    `only_able` also one that could be shown, but not recomputed.
    """
    kept: dict[str, MetricVersion] = {}
    lacking: dict[str, list[str]] = {}
    notes = []
    pictures = {p.slug: p for p in suite.pictures.select_related("stored") if p.stored}
    for name in bundle.scored_metrics:
        pinned, why = bundle.document.run.metrics[name], verification.unable.get(name)
        values: dict[str, Any] = {
            "name": name,
            "version": pinned.get("version", ""),
            "weights_sha256": pinned.get("weights_sha256", ""),
        }
        version = MetricVersion.objects.filter(**values).first()
        here = set(version.calibrations.values_list("pixels_sha256", flat=True) if version else ())
        missing = [slug for slug, p in pictures.items() if p.pixels_sha256 not in here]
        if why and (missing or only_able):
            notes.append(f"{name} is left out, as it cannot be calibrated here: {why}")
            continue
        kept[name] = version or MetricVersion.objects.get_or_create(**values)[0]
        for slug in missing:
            lacking.setdefault(slug, []).append(name)
    for slug, names in lacking.items():
        picture, made = pictures[slug], verification.calibrations.get(slug)
        if not made and picture.stored:
            subject = chain_subject(suite.core.picture_by_slug[slug])
            made = verification.scorer.only(names).calibrate(picture.stored.read(), subject)
        Calibration.objects.bulk_create(
            (
                Calibration(
                    pixels_sha256=picture.pixels_sha256,
                    metric=kept[name],
                    blank=found.blank,
                    ladder={str(q): d for q, d in found.ladder.items()},
                )
                for name in names
                if (found := (made or {}).get(name))
            ),
            ignore_conflicts=True,
        )
    return kept, notes


def _chains(
    bundle: Bundle,
    run: Run,
    metrics: dict[str, MetricVersion],
    pictures: Mapping[str, StoredImage],
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
        _trips(chain, line, metrics, pictures)


def _trips(
    chain: Chain,
    line: ChainLine,
    metrics: dict[str, MetricVersion],
    pictures: Mapping[str, StoredImage],
) -> None:
    now = timezone.now()
    rows = [
        Trip(
            chain=chain,
            number=trip.number,
            edited=_named(pictures, trip.forward),
            restored=_named(pictures, trip.backward),
            edited_seed=trip.forward.seed if trip.forward else None,
            restored_seed=trip.backward.seed if trip.backward else None,
            edited_seconds=trip.forward.seconds if trip.forward else None,
            restored_seconds=trip.backward.seconds if trip.backward else None,
            edited_notes=kept_notes(trip.forward),
            restored_notes=kept_notes(trip.backward),
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
            picture=_named(pictures, step),
            seed=step.seed,
            seconds=step.seconds,
            notes=kept_notes(step),
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


def _audits(bundle: Bundle, run: Run, pictures: Mapping[str, StoredImage]) -> None:
    chains = {(chain.case.slug, chain.repeat): chain for chain in run.chains.select_related("case")}
    Audit.objects.bulk_create(
        Audit(
            chain=chain,
            number=line.number,
            kind=line.kind,
            outcome=line.outcome,
            words=line.words[:200],
            sent=_named(pictures, line.sent),
            answer=_named(pictures, line.answer),
            seed=line.seed,
            seconds=line.seconds,
            finding=line.finding,
        )
        for line in bundle.document.audits
        if (chain := chains.get((line.case, line.repeat)))
    )


def kept_notes(half: HalfRow | None) -> dict[str, Any]:
    """What is kept of the notes on an edit: nothing recomputes them, and pages read some.

    No address among them is ever fetched.
    """
    stated = list(half.notes.items())[:MOST_NOTES] if half else []
    found = {
        name[:80]: value
        for name, value in stated
        if name != KEPT_AT and len(json.dumps(value)) <= LONGEST_NOTE
    }
    said = found.pop("converted", None)
    if isinstance(said, list) and all(isinstance(words, str) for words in said):
        found["converted"] = said
    return found


def _halves(trip: TripLine) -> tuple[HalfRow | None, ...]:
    """The edits of a trip, the first and the last of which may be missing."""
    return trip.forward, *trip.between, trip.backward


def _named(pictures: Mapping[str, StoredImage], file: FileRow | None) -> StoredImage | None:
    return pictures.get(file.sha256) if file else None


def _moment(text: str | None) -> Any:
    try:
        found = parse_datetime(text) if text else None
    except ValueError:
        return None
    return found if found and timezone.is_aware(found) else None
