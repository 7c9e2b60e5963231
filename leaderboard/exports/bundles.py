"""Bundles (zip files to verify a run) of runs in the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from django.db.models import Count, Prefetch, Sum

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.bundle.document import BundleError
from evaluation.bundle.write import (
    file_fields,
    standing_record,
    text_or_none,
    trip_fields,
    without_private,
)
from evaluation.bundle.write import write as write_bundle
from evaluation.content.shapes import BACKWARD, FORWARD
from evaluation.editors.payloads import IMAGE_ADDRESS
from evaluation.records import (
    AuditRecord,
    CalibrationRecord,
    ChainRecord,
    ModelRecord,
    Record,
    RunRecord,
    SourceRecord,
    StandingRecord,
    VoteRecord,
)
from leaderboard import standings
from leaderboard.models import (
    Audit,
    Calibration,
    Chain,
    Run,
    Score,
    StoredImage,
    Trip,
    TripStep,
)
from leaderboard.models.runs import RunState
from leaderboard.people import vote_rows

#: The cost and the number of attempts of each edit, by chain, trip and direction.
Ledger = defaultdict[tuple[int, int, str], tuple[str | None, int]]


def write(run: Run, file: Path | IO[bytes], *, images: bool = False) -> None:
    """Write the bundle of a finished run, with or without its images.

    The same run always gives the same bytes. Raises BundleError if the run cannot have a bundle.
    """
    write_bundle(DatabaseSource(run), file, images=images)


def images_size(run: Run) -> int:
    """Return the total size in bytes of the images of a run's bundle."""
    return sum(stored.bytes for stored in _images_of(run))


class DatabaseSource:
    """The content of a bundle, read from a run in the database (a RunSource).

    Raises BundleError if the run cannot have a bundle.
    """

    def __init__(self, run: Run) -> None:
        if run.state != RunState.FINISHED:
            raise BundleError(f"run {run.pk} is {run.get_state_display().lower()}, not finished")
        if run.suite.sealed:
            raise BundleError(
                f"run {run.pk} played a sealed suite, whose cases are secret: only the run's "
                "results are public"
            )
        if run.suite.definition is None:
            raise BundleError(
                f"run {run.pk} was published by others, without a suite file to verify it against"
            )
        self.row = run
        self.metrics = {metric.pk: metric for metric in standings.pinned_metrics(run)}
        self.ledger = _ledger(run)
        self.suite_images = list(run.suite.images.select_related("stored").order_by("slug"))

    def suite(self) -> Mapping[str, Any]:
        return self.row.suite.definition or {}

    def model(self) -> ModelRecord:
        model = self.row.editing_model
        return ModelRecord.of(
            _shared_fields(ModelRecord, model)
            | {
                "options": without_private(model.options),
                "price_per_edit": text_or_none(model.price_per_edit),
            }
        )

    def run(self) -> RunRecord:
        run = self.row
        return RunRecord.of(
            _shared_fields(RunRecord, run, run.review, run.progress)
            | {
                "arm": run.arm if run.arm_digest else {},
                "started_at": _iso_time(run.started_at),
                "finished_at": _iso_time(run.finished_at),
                "spent_usd": str(run.progress.spent_usd),
                "method_version": METHOD_VERSION,
            }
        )

    def sources(self) -> Iterator[SourceRecord]:
        for image in self.suite_images:
            if image.stored:
                yield SourceRecord.of({"slug": image.slug, **file_fields(image.stored)})

    def calibrations(self) -> Iterator[CalibrationRecord]:
        pixels = [image.pixels_sha256 for image in self.suite_images]
        rows = {
            (row.pixels_sha256, row.metric_id): row
            for row in Calibration.objects.filter(metric__in=self.metrics, pixels_sha256__in=pixels)
        }
        names = sorted((metric.name, pk) for pk, metric in self.metrics.items())
        for image in self.suite_images:
            for name, pk in names:
                if row := rows.get((image.pixels_sha256, pk)):
                    yield CalibrationRecord(
                        image=image.slug, metric=name, blank=row.blank, ladder=row.ladder
                    )

    def chains(self) -> Iterator[ChainRecord]:
        scores = Prefetch("scores", Score.objects.filter(metric__in=self.metrics))
        trips = Trip.objects.select_related("edited", "restored").prefetch_related(scores)
        chains = self.row.chains.select_related("case").prefetch_related(
            Prefetch("trips", trips.order_by("number")),
            Prefetch("steps", TripStep.objects.select_related("image")),
        )
        for chain in chains:
            yield ChainRecord.of(
                _shared_fields(ChainRecord, chain)
                | {
                    "case": chain.case.slug,
                    "outcome": chain.outcome or "lost",
                    "trips": [self._trip(trip, chain) for trip in chain.trips.all()],
                }
            )

    def _trip(self, trip: Trip, chain: Chain) -> dict[str, Any]:
        case = chain.case
        prompt_pair = self.row.core_arm.pair_prompts(case.pair_slug, case.forward, case.backward)
        prompts = {name: prompt for name, _, prompt in case.steps_of_trip(trip.number, prompt_pair)}

        def edit(
            name: str,
            stored: StoredImage | None,
            seed: int | None,
            seconds: float | None,
            notes: dict[str, Any],
        ) -> dict[str, Any] | None:
            if stored is None:
                return None
            cost, attempts = self.ledger[chain.pk, trip.number, name]
            return {
                "prompt": prompts.get(name, ""),
                "seed": seed,
                **file_fields(stored),
                "seconds": seconds,
                "cost": cost,
                "attempts": attempts,
                "notes": {key: value for key, value in notes.items() if key != IMAGE_ADDRESS},
            }

        between = [
            {"name": step.name, **fields}
            for step in chain.steps.all()
            if step.number == trip.number
            and (fields := edit(step.name, step.image, step.seed, step.seconds, step.notes))
        ]
        return trip_fields(
            trip.number,
            edit(FORWARD, trip.edited, trip.edited_seed, trip.edited_seconds, trip.edited_notes),
            edit(
                BACKWARD,
                trip.restored,
                trip.restored_seed,
                trip.restored_seconds,
                trip.restored_notes,
            ),
            trip.measures,
            {self.metrics[score.metric_id].name: score.distance for score in trip.scores.all()},
            between,
        )

    def audits(self) -> Iterator[AuditRecord]:
        rows = Audit.objects.filter(chain__run=self.row)
        rows = rows.select_related("chain__case", "sent", "answer")
        for audit in rows.order_by("chain__case__position", "chain__repeat", "number"):
            cost, attempts = self.ledger[audit.chain_id, audit.number, "audit"]
            yield AuditRecord.of(
                _shared_fields(AuditRecord, audit)
                | {
                    "case": audit.chain.case.slug,
                    "repeat": audit.chain.repeat,
                    "sent": file_fields(audit.sent) if audit.sent else None,
                    "answer": file_fields(audit.answer) if audit.answer else None,
                    "cost": cost,
                    "attempts": attempts,
                }
            )

    def votes(self) -> list[VoteRecord]:
        return vote_rows.records_of_run(self.row)

    def standings(self) -> Iterator[StandingRecord]:
        rows = self.row.standings.select_related("metric")
        for row in rows.order_by("metric__name", "threshold", "scope"):
            yield standing_record(row.metric.name, vars(row))

    def images(self) -> Iterator[tuple[str, str, bytes]]:
        for stored in _images_of(self.row):
            yield stored.sha256, stored.mime, stored.data()


def _shared_fields(record: type[Record], *rows: Any) -> dict[str, Any]:
    """Return the fields of a record that these rows have under the same names."""
    return {
        name: getattr(row, name)
        for row in rows
        for name in record.model_fields
        if hasattr(row, name)
    }


def _ledger(run: Run) -> Ledger:
    """Return the total cost and the number of attempts of each edit."""
    ledger: Ledger = defaultdict(lambda: (None, 0))
    rows = run.ledger.order_by().values_list("chain", "number", "direction")
    for *edit, cost, attempts in rows.annotate(Sum("cost"), Count("pk")):
        ledger[edit[0], edit[1], edit[2]] = (text_or_none(cost), attempts)
    return ledger


def _images_of(run: Run) -> list[StoredImage]:
    """Return the different images of a run in order of hash: sources, answers and audit images.

    Audit images belong to extra requests that test for cheating.
    """
    trips, audits = Trip.objects.filter(chain__run=run), Audit.objects.filter(chain__run=run)
    keys = {
        *run.suite.images.values_list("stored", flat=True),
        *trips.values_list("edited", flat=True),
        *trips.values_list("restored", flat=True),
        *TripStep.objects.filter(chain__run=run).values_list("image", flat=True),
        *audits.values_list("sent", flat=True),
        *audits.values_list("answer", flat=True),
    }
    by_hash = StoredImage.objects.in_bulk(sorted(keys - {None}))
    return [by_hash[key] for key in sorted(by_hash)]


def _iso_time(value: Any) -> str | None:
    return None if value is None else value.isoformat()
