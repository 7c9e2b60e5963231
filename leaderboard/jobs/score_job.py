"""Score what has been played, trip by trip, and finish the run when all is there."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from evaluation.analysis.stopping import may_stop
from evaluation.content.suites import Case as SuiteCase
from evaluation.content.suites import EditPair, SourcePicture
from evaluation.images import Picture
from evaluation.measuring.loss_map import loss_map
from evaluation.measuring.scoring import Scorer, Scores
from evaluation.measuring.steps import compare_orders
from evaluation.measuring.trip_measures import (
    found_by_scoring,
    identity_drift,
    judge_global,
    measure_trip,
)
from evaluation.metrics import in_order
from evaluation.records import MEASURES
from evaluation.witnesses import OF_YARDSTICKS
from leaderboard import job_queue, standings
from leaderboard.jobs import control, leases
from leaderboard.jobs.job_errors import (
    PausesRun,
    PictureGone,
    pausing,
    retry_database,
    stored_safely,
)
from leaderboard.jobs.judging import judge_run
from leaderboard.jobs.review import review
from leaderboard.jobs.scoring.calibrating import calibrate
from leaderboard.jobs.scoring.claimed_chain import ClaimedChain, Part, read
from leaderboard.jobs.shutdown import asked_to_stop
from leaderboard.models import Chain, MetricVersion, Run, RunProgress, Score, Trip
from leaderboard.models.runs import ACTIVE_STATES, ChainState, Outcome, RunState, after

log = structlog.get_logger(__name__)

#: Of the trips scored together: all their pictures are decoded at once, and what metrics make
#: of their sources is held.
TRIPS_PIXELS, SOURCES_PIXELS = 8_400_000, 2_400_000
#: A job that has caught up with playing waits for more: weights load slowly.
LINGER_SECONDS = 120.0
#: So many times longer than a play job's is its turn.
TURNS = 5


class Superseded(Exception):
    """Another worker took this chain's scores over."""


class MetricsChanged(PausesRun):
    """The run was begun with other metrics than this worker has."""

    reason = "metric_version"


def score(run_id: int, *, linger: bool = True) -> None:
    """Score what a run has played, and finalise it when all is there.

    Without `linger` it does not wait for more: whoever plays and scores in turn would wait for
    themselves.
    """
    run = Run.objects.select_related("editing_model", "suite").filter(pk=run_id).first()
    if run is not None:
        ScoreJob(run, job_queue.own_token()).run_to_end(LINGER_SECONDS if linger else 0)


class ScoreJob:
    """One job that scores a run; `token` fences its writes."""

    def __init__(self, run: Run, token: UUID) -> None:
        self.run, self.token = run, token
        pairs = run.suite.core.pair_by_slug
        self.pairs = {slug: run.core_arm.measured(pair) for slug, pair in pairs.items()}
        self.pictures = dict(run.suite.core.picture_by_slug)
        self.began = time.monotonic()
        self._calibrated: set[str] = set()

    def run_to_end(self, linger_seconds: float) -> None:
        """Score until nothing is left, wait for more while the run plays, then finalise it."""
        idle_since = time.monotonic()
        try:
            while not asked_to_stop():
                if self.score_what_there_is():
                    idle_since = time.monotonic()
                    continue
                state = self._state()
                if self._should_leave():
                    control.enqueue(self.run)  # behind the others
                    return
                if state == RunState.SCORING:
                    self._finish()
                    return
                if (
                    state != RunState.PLAYING
                    or time.monotonic() - idle_since > linger_seconds
                    or job_queue.should_leave(self.run.pk, job_queue.GPU, turn_is_over=True)
                ):
                    return
                time.sleep(1)
        finally:
            retry_database(lambda: Chain.objects.release_scores(self.token))

    def score_what_there_is(self) -> bool:
        """Score the trips played so far; whether there were any."""
        worked = False
        while self._state() in ACTIVE_STATES and not (asked_to_stop() or self._should_leave()):
            chains = retry_database(
                lambda: Chain.objects.claim_scores(self.run, self.token, control.CHAINS_EACH)
            )
            if not chains:
                return worked
            worked = True
            if not self._score_claimed(chains):
                return False
        return worked

    def _score_claimed(self, chains: Sequence[Chain]) -> bool:
        """Score these chains and put them back; False where the run had to pause."""
        try:
            with pausing(self.run, "Scoring"), leases.renewed(self._renew):
                self._score(chains)
                return True
            return False
        finally:
            retry_database(lambda: Chain.objects.release_scores(self.token))
            if self.run.stop_after:
                # Some wait to hear whether they go on.
                self.run.refresh_from_db(fields=["state"])
                control.enqueue_play(self.run)

    def _should_leave(self) -> bool:
        """Whether it is time to let somebody else come first."""
        over = time.monotonic() - self.began > TURNS * settings.TURN_SECONDS
        return job_queue.should_leave(self.run.pk, job_queue.GPU, turn_is_over=over)

    def _renew(self) -> None:
        """Hold on to the chains that are being scored, however long one batch takes."""
        mine = Chain.objects.filter(score_token=self.token)
        mine.update(score_lease_until=after(settings.LEASE_SECONDS))

    # A few chains.

    def _score(self, rows: Sequence[Chain]) -> None:
        """Score what these chains have played; those of one size share batches."""
        by_size: dict[tuple[int, int], list[ClaimedChain]] = defaultdict(list)
        for row in rows:
            picture, pair = self.pictures[row.case.picture.slug], self.pairs[row.case.pair_slug]
            chain = ClaimedChain(row, picture, pair)
            self._calibrate(picture, chain.source)
            by_size[chain.source.size].append(chain)
        for size, chains in by_size.items():
            while parts := self._next_parts(size, chains):
                for part, found in zip(parts, self._scores(parts), strict=True):
                    self._keep(part, found)

    def _next_parts(self, size: tuple[int, int], chains: Sequence[ClaimedChain]) -> list[Part]:
        """The next trips of these chains that are scored at once; none when all are."""
        room = self.scorer.at_once(size, TRIPS_PIXELS)
        sources: set[str] = set()
        parts: list[Part] = []
        for chain in chains:
            several = len(sources | {chain.picture.sha256})
            if not room or (sources and several * math.prod(size) > SOURCES_PIXELS):
                break
            try:
                part = chain.next(room)
            except PictureGone as error:
                self._lose(chain.row, str(error))
                chain.give_up()
                continue
            if part is not None:
                parts.append(part)
                sources.add(chain.picture.sha256)
                room -= len(part.trips)
        return parts

    def _keep(self, part: Part, found: Scores) -> None:
        """Measure what is no metric's, and write all that is known of these trips."""
        chain = part.chain
        for index, (trip, own) in enumerate(zip(part.trips, part.answers, strict=True)):
            y, *middle, x = own
            made = measure_trip(
                chain.source,
                part.starts[index],
                y,
                x,
                chain.pair,
                self.scorer.panel,
                part.subjects[index],
                number=trip.number,
                between=middle,
            )
            for name, value in {**dict(made), **found_by_scoring(found, index)}.items():
                setattr(trip, name, value)
            if found.maps:
                trip.loss_map = loss_map(found.maps[index])
            for stored, shown in zip(part.stored[index], own, strict=True):
                if stored:
                    stored_safely(partial(stored.write_what_pages_cannot, shown))
        row, first = chain.row, part.trips[0].number
        row.quality = _with_quality(row.quality, found.quality, first - 1)
        rows = self._rows(part.trips, found)
        try:
            retry_database(partial(self._write, row, part.trips, rows))
        except Superseded:
            chain.give_up()

    def _lose(self, chain: Chain, why: str) -> None:
        """End a chain whose pictures are gone where it was scored last: our fault, so censored."""
        log.error("chain lost", run=self.run.pk, chain=chain.pk, why=why)
        mine = Chain.objects.filter(pk=chain.pk, score_token=self.token, state=ChainState.PLAYED)
        mine.update(outcome=Outcome.LOST, outcome_text=why[:500], trips_played=F("trips_scored"))

    def _scores(self, parts: Sequence[Part]) -> list[Scores]:
        """What each pinned metric says of these trips, where it has not said it yet."""
        trips = [trip for part in parts for trip in part.trips]
        have = set(
            Score.objects.filter(trip__in=trips, metric__in=self.versions.values()).values_list(
                "trip_id", "metric_id"
            )
        )
        lacking = [
            name
            for name, metric in self.versions.items()
            if any((trip.pk, metric.pk) not in have for trip in trips)
        ]
        together = [part.returns for part in parts]
        scorer = self.scorer.only([*lacking, *self.scorer.no_reference])
        return scorer.score_together(together, maps=True)

    def _rows(self, trips: Sequence[Trip], scores: Scores) -> list[Score]:
        return [
            Score(trip=trip, metric=self.versions[name], distance=distance)
            for name, distances in scores.distances.items()
            for trip, distance in zip(trips, distances or (), strict=bool(distances))
        ]

    @transaction.atomic
    def _write(self, chain: Chain, trips: Sequence[Trip], scores: Sequence[Score]) -> None:
        mine = Chain.objects.filter(
            pk=chain.pk, score_token=self.token, trips_scored=trips[0].number - 1
        )
        until = after(settings.LEASE_SECONDS)
        scored = {"trips_scored": trips[-1].number, "quality": chain.quality}
        if not mine.update(score_lease_until=until, **scored):
            raise Superseded
        now = timezone.now()
        for trip in trips:
            trip.scored_at = now
        Trip.objects.bulk_update(trips, _MEASURED)
        Score.objects.bulk_create(scores, ignore_conflicts=True)
        if self._stops(chain) and (headline := next(iter(self.versions.values()), None)):
            # With the count of scored trips, at once: whoever plays goes by both.
            mine = Chain.objects.filter(pk=chain.pk)
            mine.update(known_at=standings.known_at(chain, headline))
        RunProgress.objects.filter(pk=self.run.pk).update(
            trips_scored=F("trips_scored") + len(trips), progress_at=now
        )
        # The other chains of this claim are waited for, not dead.
        Chain.objects.filter(score_token=self.token).update(score_lease_until=until)

    def _stops(self, chain: Chain) -> bool:
        """Whether the chain may be stopped once its end is known."""
        return bool(self.run.stop_after) and may_stop(chain.case.pair_slug, self.run.suite.core)

    def _calibrate(self, picture: SourcePicture, source: Picture) -> None:
        """Have each metric's blank card and JPEG ladder of this picture in the database."""
        if picture.sha256 not in self._calibrated:
            calibrate(picture, source, self.scorer, self.versions)
            self._calibrated.add(picture.sha256)

    # The metrics.

    @cached_property
    def scorer(self) -> Scorer:
        """The metrics of this run, pinned at its first score."""
        self.run.refresh_from_db(fields=["metrics", "provenance"])
        metrics = _pinned(self.run) or settings.METRICS or None
        scorer = Scorer(metrics, witnesses=self._witnesses())
        made = scorer.provenance()
        with transaction.atomic():
            run = Run.objects.select_for_update(of=("self",)).get(pk=self.run.pk)
            if not run.metrics:
                run.metrics = {
                    name: {"version": m["version"], "weights_sha256": m["weights_sha256"] or ""}
                    for name, m in made["metrics"].items()
                } | {name: {"missing": why} for name, why in made["not_run"].items()}
                run.provenance |= {"scoring": made}
            _note_device(run, made)
            run.save(update_fields=["metrics", "provenance"])
        self.run.metrics = run.metrics
        for name in _pinned(run):
            pinned = run.metrics[name]
            here = made["metrics"].get(name)
            if here is None:
                why = made["not_run"].get(name, "it is not installed")
                raise MetricsChanged(f"This run is scored with {name}, which cannot run now: {why}")
            # Of a version the end tells; of a hash the beginning is enough.
            for what, length in (("version", 64), ("weights_sha256", 12)):
                if (here[what] or "") != pinned[what]:
                    raise MetricsChanged(
                        f"This run was begun with {name} {what} {pinned[what][:length]}, now it is "
                        f"{(here[what] or 'none')[:length]}. Score the run again as a whole."
                    )
        # All trips of a run are judged by the same witnesses.
        witnesses = run.provenance.get("scoring", {}).get("witnesses", {})
        for name, told in witnesses.items():
            if made["witnesses"].get(name) != told:
                why = scorer.panel.not_run.get(name, "it is another version")
                raise MetricsChanged(f"This run is judged by {name}, which cannot look now: {why}")
        scorer.panel.keep(witnesses)
        return scorer.only(_pinned(run))

    def _witnesses(self) -> Sequence[str] | None:
        """Those that are heard on a run that begins; None for all, as on one that goes on."""
        if self.run.metrics:
            return None
        own = OF_YARDSTICKS if self.run.editing_model.is_reference else None
        return settings.WITNESSES or own

    @cached_property
    def versions(self) -> dict[str, MetricVersion]:
        """The row of each pinned metric."""
        here, pinned = self.scorer.metrics, self.run.metrics
        return {
            name: MetricVersion.objects.get_or_create(
                name=name,
                version=pinned[name]["version"],
                weights_sha256=pinned[name]["weights_sha256"],
            )[0]
            for name in self.run.scored_metrics
            if name in here
        }

    # The end.

    def _finish(self) -> None:
        run = Run.objects.select_related("editing_model", "suite").get(pk=self.run.pk)
        if run.chains.unplayed().exists():
            run.move(RunState.PLAYING)
            control.enqueue(run)
            return
        if run.chains.unscored().exists():
            return  # another worker has the rest
        with leases.claimed(run, self.token) as ours:
            if ours:
                with pausing(run, "Finalising"):
                    self._finalise(run)

    def _finalise(self, run: Run) -> None:
        # Also where every chain broke at once: its zeros are results, by these metrics.
        for chain in run.chains.select_related("case__picture__stored"):
            picture = self.pictures[chain.case.picture.slug]
            if picture.sha256 not in self._calibrated:
                self._calibrate(picture, read(chain.case.picture.stored))
        run.metrics = self.run.metrics
        _judge_global_pairs(run, self.pairs)
        judge_run(run, self.pairs)
        _compare_orders(run)
        if not run.editing_model.is_reference:
            review(run, self.pairs, self.scorer)
        control.recount(run)
        standings.rebuild(run)
        publish = run.published or run.editing_model.is_reference or settings.PUBLISH_AT_ONCE
        with transaction.atomic():
            # A run scored again keeps its day: it must not pass for newer than it is.
            when = {"finished_at": run.finished_at} if run.finished_at else {}
            run.move(RunState.FINISHED, published=publish, **when)
            standings.refresh_ranks(run.suite)
            standings.refresh_experiments(run)
        log.info("run finished", run=run.pk)

    def _state(self) -> str | None:
        rows = Run.objects.filter(pk=self.run.pk).values_list("state", flat=True)
        return retry_database(lambda: rows.first())


_MEASURED = (*MEASURES, "loss_map", "scored_at")


def _note_device(run: Run, made: Mapping[str, Any]) -> None:
    """Have the run tell of every device that scored it: their numbers differ a little."""
    here = {f"{told['device']} {told['precision']}" for told in made["metrics"].values()}
    scoring = run.provenance.setdefault("scoring", {})
    scoring["devices"] = sorted({*scoring.get("devices", ()), *here})


def _pinned(run: Run) -> list[str]:
    """Return the metrics that the run was begun with, in order."""
    return in_order(name for name, pin in run.metrics.items() if "missing" not in pin)


def _with_quality(
    before: Mapping[str, list[float | None]], found: Mapping[str, list[float | None]], scored: int
) -> dict[str, list[float | None]]:
    """A chain's values with those of the trips after the `scored` ones; others stay as they are."""
    joined = {
        name: [*(before.get(name) or [values[0], *[None] * scored])[: scored + 1], *values[1:]]
        for name, values in found.items()
    }
    return {**before, **joined}


def _judge_global_pairs(run: Run, pairs: dict[str, EditPair]) -> None:
    """Judge the edits that only the whole run can tell."""
    trips = Trip.objects.filter(chain__run=run, scored_at__isnull=False)

    def of(change: str) -> list[Trip]:
        slugs = [slug for slug, pair in pairs.items() if pair.change == change]
        return list(trips.filter(chain__case__pair_slug__in=slugs))

    drift = identity_drift(trip.change_measure for trip in of("none"))
    judged = of("global")
    for trip in judged:
        verdict = judge_global(trip.change_measure, drift)
        trip.change_seen, trip.change_measure = verdict.seen, verdict.measure
    Trip.objects.bulk_update(judged, ["change_seen", "change_measure"], batch_size=200)


def _compare_orders(run: Run) -> None:
    """Lay the pictures of two shapes beside each other where both should show the same."""
    if not any(pair.against for pair in run.suite.core.pairs):
        return
    chains = {(chain.case.slug, chain.repeat): chain for chain in run.chains.select_related("case")}

    def answered(case: SuiteCase, repeat: int, number: int, place: int) -> Picture | None:
        chain = chains[case.slug, repeat]
        if chain.trips_scored < number:
            return None
        if 1 < place < len(chain.case.asked(number)):
            stored = chain.steps.select_related("picture").get(number=number, place=place).picture
        else:
            trip = chain.trips.select_related("edited", "restored").get(number=number)
            stored = trip.edited if place == 1 else trip.restored
        return read(stored)

    run.orders = compare_orders(run.suite.core, answered)
    run.save(update_fields=["orders"])
