"""Actions on a run: start, pause, resume, cancel, play again, score again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import structlog
from django.conf import settings
from django.core.mail import mail_admins
from django.db import transaction
from django.db.models import Case, Count, F, Q, Sum, When
from django.db.models.functions import Least
from django.utils import timezone

from evaluation.analysis.events import STOPPED
from evaluation.analysis.stopping import edits_saved
from evaluation.arms import DEFAULT, Arm
from evaluation.audits.plan import Audit as PlannedAudit
from evaluation.audits.plan import plan
from evaluation.editors import Editor, editor_class, load_editor
from evaluation.errors import UserFacingError
from evaluation.estimate import Estimate
from evaluation.play.score import CHAINS_AT_ONCE
from evaluation.run_secret import derive_bytes, new_secret, shuffled
from leaderboard import endpoints, job_queue
from leaderboard.models import (
    Audit,
    Call,
    Chain,
    EditingModel,
    Pace,
    Run,
    RunProgress,
    Suite,
    Trip,
    TripStep,
)
from leaderboard.models.runs import ChainState, Outcome, RunState, after

log = structlog.get_logger(__name__)

#: Texts of the reasons for a pause, except the faults of editors.
REASONS = {
    "person": "Paused by an administrator",
    "budget": "The budget is used up",
    "storage": "Images cannot be stored",
    "metric_version": "The metrics changed during the run",
    "internal": "An error of this site",
}
#: Outcomes worth another attempt. A refusal or a blank image is the model's answer and stays.
PLAYABLE_AGAIN = (Outcome.FAILED, Outcome.LOST)


class NotAllowed(UserFacingError):
    """The run is in a state that does not allow this action."""


def start_budget(estimate: Estimate) -> dict[str, Any]:
    """Return the default limits of a run: its estimate plus a tenth for failed calls."""
    usd = None if estimate.usd is None else round(Decimal(estimate.usd) * Decimal("1.1"), 2)
    return {"budget_calls": math.ceil(estimate.edits * 1.1), "budget_usd": usd}


@transaction.atomic
def start(
    editing_model: EditingModel,
    suite: Suite,
    *,
    secret: str | None = None,
    stop_after: int | None = None,
    budget_calls: int | None = None,
    budget_usd: Decimal | None = None,
    arm: Arm = DEFAULT,
) -> Run:
    """Create a run with all its chains, and queue it.

    `stop_after` defaults to the suite's value. Reference editors (programs with known behaviour)
    play all trips by default: they cost nothing, and the charts need their full curves. An
    experiment's `arm` (the settings of its runs) must be resolved already. Such a run is never
    ranked, so it has no audits (extra calls that test for cheating).
    """
    if not suite.is_frozen:
        raise NotAllowed(f"{suite} is a draft; freeze it first.")
    if suite.sealed and not arm.is_default:
        raise NotAllowed(
            f"{suite} is sealed: an experiment would publish the suite's secret images and wordings."
        )
    secret = secret or new_secret()
    if stop_after is None:
        stop_after = 0 if editing_model.is_reference else suite.stop_after
    audits = _planned_audits(secret, editing_model, suite, stop_after) if arm.is_default else []
    planned = [
        (case, repeat)
        for case in suite.cases.all()
        for repeat in range(arm.repeats_of(case.repeats))
    ]
    run = Run.objects.create(
        editing_model=editing_model,
        suite=suite,
        secret=secret,
        arm=arm.to_dict(),
        arm_digest=arm.digest,
        stop_after=stop_after,
        budget_calls=budget_calls,
        budget_usd=budget_usd,
        chains_total=len(planned),
        edits_total=sum(case.edits for case, _ in planned) + len(audits),
    )
    # Chains are played in the order of their keys, which must not reveal the case.
    order = shuffled(secret, planned, lambda chain: f"{chain[0].slug}/{chain[1]}")
    chains = Chain.objects.bulk_create(
        [Chain(run=run, case=case, repeat=repeat) for case, repeat in order],
        batch_size=500,
    )
    by_name = {(chain.case.slug, chain.repeat): chain for chain in chains}
    Audit.objects.bulk_create(
        Audit(chain=by_name[audit.case, audit.repeat], number=audit.number, kind=audit.kind)
        for audit in audits
    )
    enqueue(run)
    return run


def _planned_audits(
    secret: str, editing_model: EditingModel, suite: Suite, stop_after: int
) -> list[PlannedAudit]:
    """Return the audits that the secret selects; reference editors have none."""
    if not settings.AUDITS or editing_model.is_reference:
        return []
    return plan(secret, suite.core, settings.AUDITS, stop_after)


def pause(run: Run, reason: str, text: str = "", seconds: float | None = None) -> bool:
    """Make no more calls; answers in flight are still saved.

    After `seconds` the run resumes by itself; if None, a person must resume it.
    """
    text = (text or REASONS.get(reason, reason))[:500]
    resume_at = None if seconds is None else after(seconds)
    moved = run.move(RunState.PAUSED, reason=reason, reason_text=text, resume_at=resume_at)
    if moved:
        log.warning("run paused", run=run.pk, reason=reason, text=text, resume_at=run.resume_at)
        if resume_at is None and reason != "person":
            mail_admins(f"Run {run.pk} needs you: {reason}", f"{run}\n{text}", fail_silently=True)
    return moved


def resume(run: Run) -> None:
    """Continue a paused run."""
    if not run.move(RunState.QUEUED):
        raise NotAllowed(f"A {run.get_state_display().lower()} run cannot be resumed.")
    # A person who resumes by hand expects the endpoint to work again.
    Pace.objects.filter(editing_model=run.editing_model.peers[0]).update(
        blocked_until=None, failures_in_a_row=0
    )
    enqueue(run)


def cancel(run: Run) -> None:
    """End the run now, even during an edit. Finished chains are kept."""
    if not run.move(RunState.CANCELLED, reason="", reason_text=""):
        raise NotAllowed(f"A {run.get_state_display().lower()} run cannot be cancelled.")


@transaction.atomic
def play_again(run: Run, outcomes: tuple[str, ...] = PLAYABLE_AGAIN) -> int:
    """Play chains with these outcomes again, from their last good image; return their number.

    Also plays chains that had stopped early, if new scores no longer determine their result.
    """
    # The second of two simultaneous requests waits here, then finds nothing to do.
    run.refresh_from_db(from_queryset=Run.objects.select_for_update(of=("self",)))
    stopped_too_early = Q(outcome=Outcome.KNOWN, known_at=None)
    chains = run.chains.filter(Q(outcome__in=outcomes) | stopped_too_early, state=ChainState.PLAYED)
    keys = list(chains.values_list("pk", flat=True))
    if not keys:
        return 0
    secret_is_public = run.finished_at is not None  # even if the run is being scored again
    if run.is_ended and not run.move(RunState.QUEUED, finished_at=None):
        raise NotAllowed(f"A {run.get_state_display().lower()} run cannot be played again.")
    # An incomplete trip may hold the image that ended the chain.
    for rows in (Trip.objects, TripStep.objects):
        rows.filter(chain__in=keys, number__gt=F("chain__trips_played")).delete()
    _plan_again(run, keys, secret_is_public)
    Chain.objects.filter(pk__in=keys).update(state=ChainState.WAITING, outcome="", outcome_text="")
    recount(run)
    if run.state in (RunState.SCORING, RunState.PAUSED):
        run.move(RunState.PLAYING) or run.move(RunState.QUEUED)
    enqueue(run)
    return len(keys)


def recover(run: Run) -> None:
    """Enqueue a search for images of the run that are missing from storage."""
    if not run.is_ended:
        raise NotAllowed(
            f"This run is {run.get_state_display().lower()}: recover its images when it has ended."
        )
    job_queue.enqueue(run.pk, job_queue.RECOVER, queue_of(run.editing_model))


@transaction.atomic
def play_from(run: Run, first_trips: Mapping[int, int]) -> int:
    """Play chains of an ended run again.

    `first_trips` maps a chain's primary key to the first trip to replay. The chains get the outcome
    "lost" first, by which `play_again` selects them.
    """
    for chain, number in first_trips.items():
        for rows in (Trip.objects, TripStep.objects):
            rows.filter(chain=chain, number__gte=number).delete()
        run.chains.filter(pk=chain).update(
            outcome=Outcome.LOST,
            trips_played=number - 1,
            trips_scored=Least("trips_scored", number - 1),
            known_at=Case(When(known_at__lt=number, then=F("known_at"))),
        )
    return play_again(run, (Outcome.LOST,))


def _plan_again(run: Run, keys: Sequence[int], secret_is_public: bool) -> None:
    """Plan the audits of trips that these chains still have to play.

    A public secret reveals the audits; in that case, the run first gets a new secret.
    """
    unplayed = Audit.objects.filter(chain__in=keys, number__gt=F("chain__trips_played"))
    if not secret_is_public:
        # Some of these audits were answered, for images that are now deleted.
        unplayed.update(
            outcome=Audit.Outcome.PLANNED,
            words="",
            finding={},
            **dict.fromkeys(("sent", "answer", "seed", "seconds")),
        )
        return
    run.replace_secret()
    before = unplayed.count()
    unplayed.delete()
    chains = {
        (chain.case.slug, chain.repeat): chain
        for chain in Chain.objects.filter(pk__in=keys).select_related("case")
    }
    planned = Audit.objects.bulk_create(
        Audit(chain=chain, number=audit.number, kind=audit.kind)
        for audit in _planned_audits(run.secret, run.editing_model, run.suite, run.stop_after)
        if not run.arm_digest
        if (chain := chains.get((audit.case, audit.repeat))) and audit.number > chain.trips_played
    )
    run.progress.edits_total += len(planned) - before
    run.progress.save(update_fields=["edits_total"])


@transaction.atomic
def score_again(run: Run) -> None:
    """Score the run again with the current metrics; scores of other versions are kept."""
    if run.state not in (RunState.FINISHED, RunState.PAUSED):
        raise NotAllowed(f"A {run.get_state_display().lower()} run cannot be scored again.")
    # A running job loses its chains here, so it cannot write scores of the old metrics.
    run.chains.update(trips_scored=0, known_at=None, score_token=None, score_lease_until=None)
    Audit.objects.filter(chain__run=run).update(finding={})
    run.metrics, run.progress.trips_scored = {}, 0
    run.save(update_fields=["metrics"])
    run.progress.save(update_fields=["trips_scored"])
    run.move(RunState.SCORING if run.state == RunState.FINISHED else RunState.QUEUED)
    enqueue(run)


@transaction.atomic
def recount(run: Run) -> None:
    """Derive the run's counters from its rows and its ledger of calls."""
    # Lock before counting, so that a job that waited here counts what others have written.
    progress = RunProgress.objects.select_for_update().get(pk=run.pk)
    ledger = Call.objects.filter(run=run).aggregate(
        calls=Count("pk", filter=~Q(outcome=Call.SYNTHETIC)),
        synthetic=Count("pk", filter=Q(outcome=Call.SYNTHETIC)),
        spent=Sum("cost"),
        seconds=Sum("seconds", filter=Q(outcome=Call.ANSWERED)),
    )
    chains = run.chains.aggregate(
        done=Count("pk", filter=Q(state=ChainState.PLAYED)), scored=Sum("trips_scored")
    )
    images = Trip.objects.filter(chain__run=run).aggregate(
        edited=Count("edited"), restored=Count("restored")
    )
    audits = Audit.objects.filter(chain__run=run, outcome=Audit.Outcome.ANSWERED).count()
    inner = TripStep.objects.filter(chain__run=run).count()
    answers = images["edited"] + images["restored"] + inner + audits
    stopped = run.chains.filter(outcome__in=STOPPED).values_list("trips_played", flat=True)
    counters = {
        "calls": ledger["calls"],
        "spent_usd": ledger["spent"] or Decimal(0),
        "edit_seconds": ledger["seconds"] or 0.0,
        "edits_done": answers - ledger["synthetic"],
        "edits_saved": edits_saved(run.suite.trips, stopped),
        "chains_done": chains["done"],
        "trips_scored": chains["scored"] or 0,
    }
    if any(getattr(progress, name) != count for name, count in counters.items()):
        counters["progress_at"] = timezone.now()
        for name, count in counters.items():
            setattr(progress, name, count)
        progress.save(update_fields=counters)
    run.progress = progress


def enqueue(run: Run) -> None:
    """Enqueue the jobs that the run needs now, if any."""
    enqueue_play(run)
    if run.state in (RunState.QUEUED, RunState.PLAYING, RunState.SCORING):
        unscored = run.chains.free_to_score().count()
        if unscored or run.state == RunState.SCORING:
            job_queue.enqueue(
                run.pk,
                job_queue.SCORE,
                job_queue.GPU,
                copies=max(1, -(-unscored // CHAINS_AT_ONCE)),
            )


def enqueue_play(run: Run) -> None:
    """Enqueue jobs for chains that can be played now, or one job if all have been played."""
    if run.state not in (RunState.QUEUED, RunState.PLAYING):
        return
    queue_name = queue_of(run.editing_model)
    free = run.chains.free().ready().count()
    playable = min(free, Chain.objects.free_slots(run.editing_model))
    per_job = 1 if queue_name == job_queue.GPU else settings.MAX_CALLS_IN_FLIGHT
    if playable or not run.chains.unplayed().exists():
        copies = max(1, -(-playable // per_job))
        job_queue.enqueue(run.pk, job_queue.PLAY, queue_name, copies=copies)


def queue_of(editing_model: EditingModel) -> str:
    """Return the name of the queue that plays this model; `edits` for an unknown editor."""
    editor = editor_class(editing_model.editor)
    return editor.queue if editor else job_queue.EDITS


def editor_of(run: Run, on_security_event: Callable[[str, str], None] | None = None) -> Editor:
    """Return the run's editor, loaded with its model's options and key."""
    model = run.editing_model
    options: dict[str, Any] = dict(model.options)
    endpoints.check_key_destination(model.editor, options)
    site_options = {
        "api_key": model.api_key.reveal() or None,
        # From the settings, never from the row: a submission must not reach our network.
        **endpoints.rule_options(),
        "group": derive_bytes(run.secret, "group", run.pk).hex(),
        "on_security_event": on_security_event,
    }
    accepted: set[str] = set()
    with suppress(TypeError):
        accepted = {field.name for field in dataclasses.fields(editor_class(model.editor))}  # type: ignore[arg-type]
    for name, value in site_options.items():
        if name in accepted and value is not None:
            options[name] = value
    return load_editor(model.editor, **options)
