"""Score played trips, and finish the run when all are scored.

Witnesses are automatic checks of whether an edit was made and undone. The judge is a
vision-language model that answers questions on trips.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction

from evaluation.errors import UserFacingError
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import chain_subject
from evaluation.metrics import in_order
from evaluation.play.finish import finish, review
from evaluation.play.score import score as score_trips
from evaluation.play.store import Paused
from evaluation.witnesses import REFERENCE_EDITOR_WITNESSES
from evaluation.witnesses.judge import InMemory, Judge, JudgeOptions, StoredAnswer
from leaderboard import job_queue, standings
from leaderboard.jobs import canaries, control, resilience
from leaderboard.jobs.database_scores import DatabaseScores
from leaderboard.jobs.resilience import (
    DATABASE_UNAVAILABLE,
    pause_for,
    retry_database,
    stop_requested,
)
from leaderboard.models import JudgeAnswer, Run, Trip
from leaderboard.models.runs import ACTIVE_STATES, RunState

log = structlog.get_logger(__name__)

#: An idle job waits this long for more trips: a new job would have to load the weights again.
LINGER_SECONDS = 120.0
#: A turn of a score job is this many times as long as a turn of a play job.
TURN_FACTOR = 5
JUDGE_SETTINGS = (
    "JUDGE_MODEL",
    "JUDGE_KIND",
    "JUDGE_URL",
    "JUDGE_KEY",
    "JUDGE_PRICE_IN",
    "JUDGE_PRICE_OUT",
    "JUDGE_USD",
)


def score(run_id: int, *, linger: bool = True) -> None:
    """Score the played trips of a run, and finalise it when all are scored.

    With `linger`, the job waits for more trips. A caller that plays the trips itself must not linger.
    """
    run = Run.objects.select_related("editing_model", "suite").filter(pk=run_id).first()
    if run is not None:
        ScoreJob(run, job_queue.current_token()).run_to_end(LINGER_SECONDS if linger else 0)


class ScoreJob:
    """One job that scores a run; each write checks that `token` still has its claim."""

    def __init__(self, run: Run, token: UUID) -> None:
        self.run, self.token = run, token
        self.store = DatabaseScores(run, token, self._may_continue)
        self.began = time.monotonic()

    def run_to_end(self, linger_seconds: float) -> None:
        """Score all trips, wait for more while the run plays, then finalise it."""
        idle_since = time.monotonic()
        while not stop_requested():
            if self.score_played():
                idle_since = time.monotonic()
                continue
            state = self._state()
            if self._should_leave():
                control.enqueue(self.run)  # queue it behind other jobs
                return
            if state == RunState.SCORING:
                self._finish()
                return
            if (
                state != RunState.PLAYING
                or time.monotonic() - idle_since > linger_seconds
                or job_queue.should_yield(self.run.pk, job_queue.GPU, turn_is_over=True)
            ):
                return
            time.sleep(1)

    def score_played(self) -> bool:
        """Score the trips played so far.

        Returns False if there were none, or the run had to pause.
        """
        if not self._may_continue() or not self.run.chains.free_to_score().exists():
            return False
        try:
            with resilience.renewing(self.store.renew):
                score_trips(self.store, self.scorer)
        except DATABASE_UNAVAILABLE:
            raise
        except Exception as error:
            pause_for(self.run, "Scoring", error)
            return False
        return True

    def _may_continue(self) -> bool:
        return self._state() in ACTIVE_STATES and not (stop_requested() or self._should_leave())

    def _should_leave(self) -> bool:
        """Return True if another job should run first."""
        over = time.monotonic() - self.began > TURN_FACTOR * settings.TURN_SECONDS
        return job_queue.should_yield(self.run.pk, job_queue.GPU, turn_is_over=over)

    def _state(self) -> str | None:
        rows = Run.objects.filter(pk=self.run.pk).values_list("state", flat=True)
        return retry_database(lambda: rows.first())

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer of this run, with the metrics pinned when scoring started."""
        return pinned_scorer(self.run)

    def _finish(self) -> None:
        run = self.run
        run.refresh_from_db()
        if run.chains.unplayed().exists():
            run.move(RunState.PLAYING)
            control.enqueue(run)
            return
        if run.chains.unscored().exists():
            return  # another worker scores the other trips
        with resilience.finalising(run, self.token) as claimed:
            if not claimed:
                return
            try:
                self._finalise()
            except DATABASE_UNAVAILABLE:
                raise
            except Exception as error:
                pause_for(run, "Finalising", error)

    def _finalise(self) -> None:
        run, store, scorer = self.run, self.store, self.scorer
        run.refresh_from_db(fields=["metrics", "provenance"])
        # Chains that failed before their first trip need calibrations too, to count as zero.
        for chain in store.chains():
            if not store.is_calibrated(chain):
                subject = chain_subject(chain.image)
                store.calibrate(chain, store.source(chain), subject, scorer)
        judge = judge_of(run)
        try:
            finish(store, judge, stop_requested)
        finally:
            if judge and judge.client:
                judge.client.close()
        if judge and judge.stopped:
            log.warning("the judge stopped answering", run=run.pk, why=judge.stopped)
        if not run.editing_model.is_reference:
            store.save_review(review(store, scorer))
        control.recount(run)
        _record_size(run)
        standings.rebuild(run)
        publish = run.published or run.editing_model.is_reference or settings.PUBLISH_AT_ONCE
        with transaction.atomic():
            # A run that is scored again keeps its date, so that it does not appear newer.
            date = {"finished_at": run.finished_at} if run.finished_at else {}
            run.move(RunState.FINISHED, published=publish, **date)
            standings.refresh_ranks(run.suite)
            standings.refresh_experiments(run)
        canaries.mail_change(run)
        log.info("run finished", run=run.pk)


# The metrics of a run.


def pinned_scorer(run: Run) -> Scorer:
    """Return a scorer with this run's metrics.

    The first call pins the metrics: their versions are stored, and all trips are scored with them.
    Raises Paused if a pinned metric or witness cannot run here.
    """
    run.refresh_from_db(fields=["metrics", "provenance"])
    metrics = _pinned_names(run) or settings.METRICS or None
    scorer = Scorer(metrics, witnesses=_witnesses(run))
    provenance = scorer.provenance()
    with transaction.atomic():
        row = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
        if not row.metrics:
            row.metrics = {
                name: {"version": m["version"], "weights_sha256": m["weights_sha256"] or ""}
                for name, m in provenance["metrics"].items()
            } | {name: {"missing": why} for name, why in provenance["not_run"].items()}
            row.provenance |= {"scoring": provenance}
        _record_device(row, provenance)
        row.save(update_fields=["metrics", "provenance"])
    run.metrics, run.provenance = row.metrics, row.provenance
    for name in _pinned_names(run):
        pinned = run.metrics[name]
        current = provenance["metrics"].get(name)
        if current is None:
            why = provenance["not_run"].get(name, "it is not installed")
            raise _metrics_changed(f"This run is scored with {name}, which cannot run now: {why}")
        # The message shows whole versions, which may differ at their end, but not whole hashes.
        for what, length in (("version", 64), ("weights_sha256", 12)):
            if (current[what] or "") != pinned[what]:
                raise _metrics_changed(
                    f"The {what} of {name} was {pinned[what][:length]} when this run was first "
                    f"scored and is {(current[what] or 'none')[:length]} now. Score the whole run "
                    "again."
                )
    # All trips of a run are checked by the same witnesses.
    witnesses = run.provenance.get("scoring", {}).get("witnesses", {})
    for name, pinned_version in witnesses.items():
        if provenance["witnesses"].get(name) != pinned_version:
            why = scorer.panel.not_run.get(name, "its version changed")
            raise _metrics_changed(
                f"Edits of this run are checked by {name}, which cannot run now: {why}"
            )
    scorer.panel.restrict_to(witnesses)
    return scorer.only(_pinned_names(run))


def _metrics_changed(message: str) -> Paused:
    return Paused(message, "metric_version")


def _witnesses(run: Run) -> Sequence[str] | None:
    """Return the names of the witnesses for a new run; None: all (a continued run loads all)."""
    if run.metrics:
        return None
    return settings.WITNESSES or (
        REFERENCE_EDITOR_WITNESSES if run.editing_model.is_reference else None
    )


def _record_device(run: Run, provenance: Mapping[str, Any]) -> None:
    """Record every device that scores the run: numbers differ slightly between devices."""
    devices = {f"{m['device']} {m['precision']}" for m in provenance["metrics"].values()}
    scoring = run.provenance.setdefault("scoring", {})
    scoring["devices"] = sorted({*scoring.get("devices", ()), *devices})


def _record_size(run: Run) -> None:
    """Record the most common longest side of the first edited images, as they arrived."""
    first = Trip.objects.filter(chain__run=run, number=1, edited__isnull=False)
    sides = Counter(max(size) for size in first.values_list("edited__width", "edited__height"))
    if sides:
        run.provenance |= {"answers": {"returned": sides.most_common(1)[0][0]}}
        run.save(update_fields=["provenance"])


def _pinned_names(run: Run) -> list[str]:
    """Return the names of the run's pinned metrics, in order."""
    return in_order(name for name, pin in run.metrics.items() if "missing" not in pin)


# The judge of a run.


class StoredAnswers(InMemory):
    """The judge's answers on one run: loaded once, each new one saved at once."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        names = ("question", "version", "outcome", "text", "cost", "seconds", "about")
        for key, *values in run.judge_answers.values_list("key", *names):
            self._answers[key] = StoredAnswer(*values)

    def save(self, key: str, answer: StoredAnswer) -> None:
        super().save(key, answer)
        JudgeAnswer.objects.update_or_create(run=self.run, key=key, defaults=asdict(answer))


def judge_of(run: Run) -> Judge | None:
    """Return the judge configured in the settings; None if it is absent or invalid."""
    try:
        options = JudgeOptions.from_settings(
            {name: getattr(settings, name) for name in JUDGE_SETTINGS}
        )
    except UserFacingError as error:
        log.error("the judge's settings are invalid", run=run.pk, why=str(error))
        return None
    return Judge.from_options(options, StoredAnswers(run)) if options else None
