"""Run bundles: a finished run as a file that others can check."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from django.db.models import Count, Prefetch, Sum

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.bundle import format as bundles
from evaluation.bundle import writing
from evaluation.bundle.format import BundleError
from evaluation.content.shapes import BACKWARD, FORWARD
from evaluation.editors.payloads import KEPT_AT
from leaderboard import standings
from leaderboard.models import (
    Audit,
    Calibration,
    Chain,
    MetricVersion,
    Run,
    Score,
    StoredImage,
    SuitePicture,
    Trip,
    TripStep,
)
from leaderboard.models.runs import RunState
from leaderboard.people import vote_rows

MODEL_FIELDS = (
    *("slug", "name", "provider", "organisation", "editor", "access", "open_weights"),
    *("licence", "homepage", "paper_url", "code_url", "is_reference"),
)
AUDIT_FIELDS = ("number", "kind", "outcome", "words", "seed", "seconds", "finding")

#: Of each half: what it cost, and in how many attempts.
Ledger = defaultdict[tuple[int, int, str], tuple[str | None, int]]


def write(run: Run, file: Path | IO[bytes], *, pictures: bool = False) -> None:
    """The bundle of a finished run, with its pictures or without; same run, same bytes."""
    writing.write(file, _document(run, pictures=pictures), _pictures(run) if pictures else ())


def pictures_size(run: Run) -> int:
    """How many bytes the pictures of a bundle take."""
    return sum(stored.bytes for stored in _stored(run))


def _document(run: Run, *, pictures: bool) -> dict[str, Any]:
    if run.state != RunState.FINISHED:
        raise BundleError(f"run {run.pk} is {run.get_state_display().lower()}, not finished")
    if run.suite.sealed:
        raise BundleError(f"run {run.pk} is of a sealed suite: only its numbers are told")
    if run.suite.definition is None:
        raise BundleError(f"run {run.pk} was published elsewhere: there is no suite file to check")
    model = run.editing_model
    metrics = {metric.pk: metric for metric in standings.pinned_metrics(run)}
    votes = vote_rows.of_run(run)
    return {
        "format": bundles.FORMAT,
        "pictures": pictures,
        "suite": {"definition": run.suite.definition},
        "model": {name: getattr(model, name) for name in MODEL_FIELDS}
        | {
            "options": writing.public(model.options),
            "price_per_edit": _text(model.price_per_edit),
        },
        "run": {
            "secret": run.secret,
            "earlier_secrets": run.earlier_secrets,
            "state": run.state,
            "source": run.source,
            "metrics": run.metrics,
            "provenance": run.provenance,
            "flags": run.review.flags,
            "cleared": run.review.cleared,
            "decision": run.review.decision,
            "marks_kept": run.review.marks_kept,
            "loss_under_audit": run.review.loss_under_audit,
            "stop_after": run.stop_after,
            "changed_elsewhere": run.review.changed_elsewhere,
            **({"orders": run.orders} if run.orders else {}),
            "started_at": _moment(run.started_at),
            "finished_at": _moment(run.finished_at),
            "calls": run.progress.calls,
            "spent_usd": str(run.progress.spent_usd),
            "method_version": METHOD_VERSION,
        }
        | ({"arm": run.arm} if run.arm_digest else {}),
        "sources": [
            {"slug": picture.slug} | writing.file_row(picture.stored)
            for picture in _sources(run)
            if picture.stored
        ],
        "calibrations": _calibrations(run, metrics),
        "chains": _chains(run, metrics),
        "audits": _audits(run),
        "standings": _standings(run),
        **({"votes": votes} if votes else {}),
    }


def _sources(run: Run) -> list[SuitePicture]:
    return list(run.suite.pictures.select_related("stored").order_by("slug"))


def _calibrations(run: Run, metrics: dict[int, MetricVersion]) -> list[dict[str, Any]]:
    rows = {
        (row.pixels_sha256, row.metric_id): row
        for row in Calibration.objects.filter(
            metric__in=metrics, pixels_sha256__in=[p.pixels_sha256 for p in _sources(run)]
        )
    }
    names = sorted((metric.name, pk) for pk, metric in metrics.items())
    return [
        {"picture": p.slug, "metric": name, "blank": row.blank, "ladder": row.ladder}
        for p in _sources(run)
        for name, pk in names
        if (row := rows.get((p.pixels_sha256, pk)))
    ]


def _chains(run: Run, metrics: dict[int, MetricVersion]) -> list[dict[str, Any]]:
    scores = Prefetch("scores", Score.objects.filter(metric__in=metrics))
    trips = Trip.objects.select_related("edited", "restored").prefetch_related(scores)
    chains = run.chains.select_related("case").prefetch_related(
        Prefetch("trips", trips.order_by("number")),
        Prefetch("steps", TripStep.objects.select_related("picture")),
    )
    ledger = _ledger(run)
    return [
        {
            "case": chain.case.slug,
            "repeat": chain.repeat,
            "outcome": chain.outcome or "lost",
            "outcome_text": chain.outcome_text,
            "results": chain.results,
            "trips": [_trip(trip, chain, run, metrics, ledger) for trip in chain.trips.all()],
            **writing.quality_of(chain),
        }
        for chain in chains
    ]


def _trip(
    trip: Trip, chain: Chain, run: Run, metrics: dict[int, MetricVersion], ledger: Ledger
) -> dict[str, Any]:
    case = chain.case
    words = run.core_arm.prompts_of(case.pair_slug, case.forward, case.backward)
    prompts = {name: prompt for name, _, prompt in case.asked(trip.number, words)}

    def half(
        name: str,
        stored: StoredImage | None,
        seed: int | None,
        seconds: float | None,
        notes: dict[str, Any],
    ) -> dict[str, Any] | None:
        if stored is None:
            return None
        notes = {key: value for key, value in notes.items() if key != KEPT_AT}
        cost, attempts = ledger[chain.pk, trip.number, name]
        facts = {"seconds": seconds, "cost": cost, "attempts": attempts, "notes": notes}
        row = {"prompt": prompts.get(name, ""), "seed": seed, **writing.file_row(stored), **facts}
        return row if name in (FORWARD, BACKWARD) else {"name": name, **row}

    steps = [step for step in chain.steps.all() if step.number == trip.number]
    made = [half(step.name, step.picture, step.seed, step.seconds, step.notes) for step in steps]
    return writing.trip_line(
        trip.number,
        half(FORWARD, trip.edited, trip.edited_seed, trip.edited_seconds, trip.edited_notes),
        half(
            BACKWARD,
            trip.restored,
            trip.restored_seed,
            trip.restored_seconds,
            trip.restored_notes,
        ),
        trip.measures,
        {metrics[score.metric_id].name: score.distance for score in trip.scores.all()},
        [row for row in made if row],
    )


def _audits(run: Run) -> list[dict[str, Any]]:
    audits = Audit.objects.filter(chain__run=run).select_related("chain__case", "sent", "answer")
    ledger = _ledger(run)
    rows = []
    for audit in audits.order_by("chain__case__position", "chain__repeat", "number"):
        cost, attempts = ledger[audit.chain_id, audit.number, "audit"]
        rows.append(
            {name: getattr(audit, name) for name in AUDIT_FIELDS}
            | {
                "case": audit.chain.case.slug,
                "repeat": audit.chain.repeat,
                "sent": writing.file_row(audit.sent) if audit.sent else None,
                "answer": writing.file_row(audit.answer) if audit.answer else None,
                "cost": cost,
                "attempts": attempts,
            }
        )
    return rows


def _ledger(run: Run) -> Ledger:
    """What each half cost, and in how many attempts."""
    found: Ledger = defaultdict(lambda: (None, 0))
    rows = run.ledger.order_by().values_list("chain", "number", "direction")
    for *half, cost, attempts in rows.annotate(Sum("cost"), Count("pk")):
        found[half[0], half[1], half[2]] = (_text(cost), attempts)
    return found


def _standings(run: Run) -> list[dict[str, Any]]:
    rows = run.standings.select_related("metric").order_by("metric__name", "level", "scope")
    return [writing.standing_line(row.metric.name, vars(row)) for row in rows]


def _stored(run: Run) -> list[StoredImage]:
    """Every picture of a run once, by name: the sources, all answers, what audits sent."""
    trips, audits = Trip.objects.filter(chain__run=run), Audit.objects.filter(chain__run=run)
    keys = {
        *run.suite.pictures.values_list("stored", flat=True),
        *trips.values_list("edited", flat=True),
        *trips.values_list("restored", flat=True),
        *TripStep.objects.filter(chain__run=run).values_list("picture", flat=True),
        *audits.values_list("sent", flat=True),
        *audits.values_list("answer", flat=True),
    }
    found = StoredImage.objects.in_bulk(sorted(keys - {None}))
    return [found[key] for key in sorted(found)]


def _pictures(run: Run) -> Iterator[tuple[str, bytes]]:
    for stored in _stored(run):
        data = stored.data()
        yield bundles.picture_name(stored.sha256, stored.mime), data


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _moment(value: Any) -> str | None:
    return None if value is None else value.isoformat()
