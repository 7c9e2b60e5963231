"""Store a run in the database while it is being scored and finished.

Calibrations are a metric's distances from a source image to copies with a known loss. Audits are
extra calls that test the model for cheating; a finding is the measured result of one audit.

Each write checks the job's token, so that a job whose lease has lapsed can no longer write.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from evaluation.analysis.stopping import may_stop
from evaluation.audits.findings import Finding, findings_from_rows
from evaluation.audits.plan import Audit as PlannedAudit
from evaluation.images import EncodedImage
from evaluation.measuring.calibration import shipped
from evaluation.measuring.scoring import Scorer
from evaluation.metrics.base import Subject
from evaluation.play.finish import Hint, Review
from evaluation.play.run_folder import chain_slug
from evaluation.play.score import CHAINS_AT_ONCE, joined_quality
from evaluation.play.store import AnsweredAudit, ChainTaken, PlayedTrips, ScoredTrips, ScoreStore
from evaluation.records import MEASURES, TripMeasures
from leaderboard import standings
from leaderboard.jobs import control
from leaderboard.jobs.resilience import retry_database, retry_storage
from leaderboard.models import (
    Audit,
    Calibration,
    Chain,
    MetricVersion,
    Run,
    Score,
    StoredImage,
    Trip,
    TripStep,
)
from leaderboard.models.runs import ChainState, Outcome, after

log = structlog.get_logger(__name__)
#: The number of chains listed as examples of a hint.
EXAMPLES = 5


@dataclass(eq=False)
class ChainRows:
    """A chain with the rows of its trips, read once."""

    chain: Chain

    @cached_property
    def trips(self) -> dict[int, Trip]:
        rows = self.chain.trips.select_related("edited", "restored")
        return {trip.number: trip for trip in rows}

    @cached_property
    def inner(self) -> dict[int, list[StoredImage | None]]:
        """The answers to the steps between the first and the last, by trip."""
        by_trip: dict[int, list[StoredImage | None]] = defaultdict(list)
        steps: Iterable[TripStep] = self.chain.steps.select_related("image")
        for step in sorted(steps, key=lambda step: (step.number, step.place)):
            by_trip[step.number].append(step.image)
        return by_trip

    def answer(self, steps: int, number: int, place: int) -> StoredImage | None:
        """Return the answer to the step at `place`, counted from 0, of a trip of `steps` steps."""
        trip = self.trips[number]
        if place == 0:
            return trip.edited
        if place == steps - 1:
            return trip.restored
        return self.inner[number][place - 1]


class DatabaseScores(ScoreStore):
    """The database as the store of a run that one job scores.

    The job claims chains only while `may_continue` returns True.
    """

    def __init__(
        self, run: Run, token: UUID, may_continue: Callable[[], bool] = lambda: True
    ) -> None:
        self.run, self.token, self.may_continue = run, token, may_continue
        self.suite = run.suite.core
        arm = run.core_arm
        self._pairs = {slug: arm.reworded(pair) for slug, pair in self.suite.pair_by_slug.items()}
        #: Cached features of the sources that this job has calibrated: by hash of the source's pixels,
        #: then by metric.
        self._calibrated: dict[str, dict[str, Mapping[str, Any]]] = {}

    def played_trips(self, chain: Chain) -> PlayedTrips:
        """Convert a chain for the scoring loop."""
        case = chain.case
        return PlayedTrips(
            ChainRows(chain),
            chain_slug(case.slug, chain.repeat),
            self._pairs[case.pair_slug],
            self.suite.image_by_slug[case.image.slug],
            chain.outcome,
            chain.trips_played,
            chain.trips_scored,
        )

    # Scoring.

    def claim(self) -> list[PlayedTrips]:
        if not self.may_continue():
            return []
        rows = retry_database(
            lambda: Chain.objects.claim_scores(self.run, self.token, CHAINS_AT_ONCE)
        )
        return [self.played_trips(row) for row in rows]

    def release(self) -> None:
        retry_database(lambda: Chain.objects.release_scores(self.token))
        if self.run.stop_after:
            # Some chains wait for scores before they continue.
            self.run.refresh_from_db(fields=["state"])
            control.enqueue_play(self.run)

    def renew(self) -> None:
        """Renew the leases of the chains that are being scored."""
        claimed = Chain.objects.filter(score_token=self.token)
        claimed.update(score_lease_until=after(settings.LEASE_SECONDS))

    def source(self, chain: PlayedTrips) -> EncodedImage:
        return _read(chain.key.chain.case.image.stored)

    def answer(self, chain: PlayedTrips, trip: int, place: int) -> EncodedImage:
        return _read(chain.key.answer(len(chain.pair.trip(trip)), trip, place))

    @cached_property
    def versions(self) -> dict[str, MetricVersion]:
        """The row of each metric that scores the run."""
        pinned = self.run.metrics
        return {
            name: MetricVersion.objects.get_or_create(
                name=name,
                version=pinned[name]["version"],
                weights_sha256=pinned[name]["weights_sha256"],
            )[0]
            for name in self.run.scored_metrics
        }

    def is_calibrated(self, chain: PlayedTrips) -> bool:
        """Return True if this job has calibrated the chain's source image."""
        return chain.key.chain.case.image.pixels_sha256 in self._calibrated

    def calibrate(
        self, chain: PlayedTrips, source: EncodedImage, subject: Subject, scorer: Scorer
    ) -> Mapping[str, Mapping[str, Any]]:
        """Store a source's calibrations, shipped or computed; return their cached features."""
        sha256 = chain.key.chain.case.image.pixels_sha256
        if not self.is_calibrated(chain):
            self._calibrate(sha256, source, subject, scorer)
            rows = Calibration.objects.filter(
                pixels_sha256=sha256, metric__in=self.versions.values(), stored__isnull=False
            )
            stored = rows.values_list("metric__name", "stored")
            self._calibrated[sha256] = {name: values for name, values in stored if values}
        return self._calibrated[sha256]

    def _calibrate(
        self, sha256: str, source: EncodedImage, subject: Subject, scorer: Scorer
    ) -> None:
        stored = Calibration.objects.filter(pixels_sha256=sha256)
        calibrated = set(stored.values_list("metric_id", flat=True))
        missing = {
            name: metric for name, metric in self.versions.items() if metric.pk not in calibrated
        }
        if not missing:
            return
        versions = {name: (m.version, m.weights_sha256) for name, m in missing.items()}
        computed = shipped(sha256, subject, versions)
        if not_shipped := [name for name in missing if name not in computed]:
            computed |= scorer.only(not_shipped).calibrate(source, subject)
        Calibration.objects.store(sha256, {missing[name]: c for name, c in computed.items() if c})

    def unscored_metrics(
        self, trips: Iterable[tuple[PlayedTrips, int]], scorer: Scorer
    ) -> list[str]:
        keys = [chain.key.trips[number].pk for chain, number in trips]
        scores = Score.objects.filter(trip__in=keys, metric__in=self.versions.values())
        scored = set(scores.values_list("trip_id", "metric_id"))
        unscored = [
            name
            for name, metric in self.versions.items()
            if any((trip, metric.pk) not in scored for trip in keys)
        ]
        return [*unscored, *scorer.no_reference]

    def save_scores(self, chain: PlayedTrips, trips: ScoredTrips) -> None:
        row: Chain = chain.key.chain
        changed: list[Trip] = []
        for index, (measures, answers) in enumerate(
            zip(trips.measures, trips.answers, strict=True)
        ):
            number = trips.first + index
            trip = chain.key.trips[number]
            for name in MEASURES:
                setattr(trip, name, getattr(measures, name))
            for place, image in enumerate(answers):
                stored = chain.key.answer(len(answers), number, place)
                if stored and image:
                    retry_storage(partial(stored.write_previews, image))
            changed.append(trip)
        row.quality = joined_quality(row.quality, trips.scores.quality, trips.first - 1)
        scores = [
            Score(trip=trip, metric=self.versions[name], distance=distance)
            for name, distances in trips.scores.distances.items()
            for trip, distance in zip(changed, distances or (), strict=bool(distances))
        ]
        retry_database(partial(self._write, row, changed, scores))
        retry_database(partial(control.recount, self.run))

    @transaction.atomic
    def _write(self, chain: Chain, trips: Sequence[Trip], scores: Sequence[Score]) -> None:
        held = Chain.objects.filter(
            pk=chain.pk, score_token=self.token, trips_scored=trips[0].number - 1
        )
        until = after(settings.LEASE_SECONDS)
        scored = {"trips_scored": trips[-1].number, "quality": chain.quality}
        if not held.update(score_lease_until=until, **scored):
            raise ChainTaken
        now = timezone.now()
        for trip in trips:
            trip.scored_at = now
        Trip.objects.bulk_update(trips, [*MEASURES, "scored_at"])
        Score.objects.bulk_create(scores, ignore_conflicts=True)
        stops = self.run.stop_after and may_stop(chain.case.pair_slug, self.suite)
        if stops and (headline := next(iter(self.versions.values()), None)):
            # Saved in one transaction with `trips_scored`: play jobs read both.
            row = Chain.objects.filter(pk=chain.pk)
            row.update(known_at=standings.known_at(chain, headline))
        # Renew the leases of all claimed chains: this job has yet to score the other ones.
        Chain.objects.filter(score_token=self.token).update(score_lease_until=until)

    def end_lost_chain(self, chain: PlayedTrips, reason: str) -> None:
        """End the chain at its last scored trip.

        In the statistics the later trips are unknown (censored): the fault is this site's.
        """
        row: Chain = chain.key.chain
        log.error("chain lost", run=self.run.pk, chain=row.pk, why=reason)
        held = Chain.objects.filter(pk=row.pk, score_token=self.token, state=ChainState.PLAYED)
        held.update(outcome=Outcome.LOST, outcome_text=reason[:500], trips_played=F("trips_scored"))

    # Finishing.

    def chains(self) -> Iterator[PlayedTrips]:
        for chain in self.run.chains.select_related("case__image__stored"):
            yield self.played_trips(chain)

    def _scored_trips(self, chain: PlayedTrips) -> list[Trip]:
        rows = Trip.objects.filter(chain=chain.key.chain, scored_at__isnull=False)
        return list(rows.only("number", *MEASURES).order_by("number"))

    def measures(self, chain: PlayedTrips) -> list[TripMeasures]:
        return [trip.measures for trip in self._scored_trips(chain)]

    def save_measures(self, chain: PlayedTrips, measures: Mapping[int, TripMeasures]) -> None:
        changed = [trip for trip in self._scored_trips(chain) if trip.number in measures]
        for trip in changed:
            for name in MEASURES:
                setattr(trip, name, getattr(measures[trip.number], name))
        Trip.objects.bulk_update(changed, MEASURES)

    def save_no_reference(
        self, chain: PlayedTrips, name: str, values: Sequence[float | None]
    ) -> None:
        row: Chain = chain.key.chain
        row.quality = {**row.quality, name: list(values)}
        row.save(update_fields=["quality"])

    def save_judge(self, summary: Mapping[str, Any]) -> None:
        self.run.provenance |= {"judge": dict(summary)}
        self.run.save(update_fields=["provenance"])

    def save_orders(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.run.orders = list(rows)
        self.run.save(update_fields=["orders"])

    # The review.

    def audits(self, chain: PlayedTrips) -> list[AnsweredAudit]:
        waiting = Audit.objects.filter(
            chain=chain.key.chain, outcome=Audit.Outcome.ANSWERED, finding={}, answer__isnull=False
        )
        answered = []
        for row in waiting.select_related("answer", "chain__case"):
            planned = row.planned
            # Chains that were played again have a newer secret than the run's other chains.
            matching = (secret for secret in self.run.secrets if planned.seed(secret) == row.seed)
            answered.append(AnsweredAudit(row, planned, next(matching, self.run.secret)))
        return answered

    def unanswered_audits(self, chain: PlayedTrips) -> list[PlannedAudit]:
        ended = (Audit.Outcome.REFUSED, Audit.Outcome.FAILED)
        rows = Audit.objects.filter(chain=chain.key.chain, outcome__in=ended)
        return [row.planned for row in rows.select_related("chain__case")]

    def audit_answer(self, audit: AnsweredAudit) -> EncodedImage:
        return _read(audit.key.answer)

    def save_finding(self, audit: AnsweredAudit, finding: Finding) -> None:
        audit.key.finding = asdict(finding)
        audit.key.save(update_fields=["finding"])

    def findings(self) -> list[Finding]:
        audits = Audit.objects.filter(chain__run=self.run).exclude(finding={})
        return findings_from_rows(list(audits.values_list("finding", flat=True)))

    def save_review(self, review: Review) -> None:
        """Save flags, hints and medians; a flagged run is not ranked."""
        row, audited = self.run.review, review.audited
        row.flags = [{"kind": "review", "text": reason} for reason in audited.reasons]
        row.hints = [
            *({"kind": "audit", "text": hint} for hint in audited.hints),
            *(_hint(hint) for hint in review.hints),
        ]
        for name in row.MEDIANS:
            setattr(row, name, getattr(audited, name))
        row.save(update_fields=["flags", "hints", *row.MEDIANS])


def _hint(hint: Hint) -> dict[str, Any]:
    return {
        "kind": hint.kind,
        "text": hint.text,
        "evidence": [
            {
                "case": chain.key.chain.case_id,
                "trip": sign.number,
                "direction": sign.direction,
                "detail": sign.detail,
            }
            for chain, sign in hint.evidence[:EXAMPLES]
        ],
    }


def _read(stored: StoredImage | None) -> EncodedImage:
    """Read an image. Raises ImageGone or LookupError, or Paused if storage is unavailable."""
    if stored is None:
        raise LookupError("a played trip has no stored image")
    return retry_storage(stored.read)
