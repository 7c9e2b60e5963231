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
from evaluation.run_secret import drawn, new_secret, shuffled
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

#: Reasons of a pause that are not an editor's fault, with their texts.
REASONS = {
    "person": "Paused by an administrator",
    "budget": "The budget is used up",
    "storage": "Images cannot be stored",
    "metric_version": "The metrics changed during the run",
    "internal": "An error of this site",
}
#: Outcomes worth another try. A refusal or a blank image is the model's answer and stays.
PLAYABLE_AGAIN = (Outcome.FAILED, Outcome.LOST)


class CannotMove(UserFacingError):
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

    Without `stop_after` chains are stopped by the suite's rule; reference editors, which are the
    scale of the curves and cost nothing, are played to the end. An `arm` of an experiment must be
    settled already; it is never ranked, so it has no audits.
    """
    if not suite.is_frozen:
        raise CannotMove(f"{suite} is a draft; freeze it first.")
    if suite.sealed and not arm.is_default:
        raise CannotMove(f"{suite} is sealed: an experiment would publish its images and wordings.")
    secret = secret or new_secret()
    if stop_after is None:
        stop_after = 0 if editing_model.is_reference else suite.stop_after
    audits = _planned(secret, editing_model, suite, stop_after) if arm.is_default else []
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


def _planned(
    secret: str, editing_model: EditingModel, suite: Suite, stop_after: int
) -> list[PlannedAudit]:
    """Return the audits that the secret draws; reference editors have none."""
    if not settings.AUDITS or editing_model.is_reference:
        return []
    return plan(secret, suite.core, settings.AUDITS, stop_after)


def pause(run: Run, reason: str, text: str = "", seconds: float | None = None) -> bool:
    """Stop making calls; answers in flight are still saved.

    Without `seconds` a person resumes it.
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
        raise CannotMove(f"A {run.get_state_display().lower()} run cannot be resumed.")
    # A person who resumes by hand expects the endpoint to work again.
    Pace.objects.filter(editing_model=run.editing_model.peers[0]).update(
        blocked_until=None, failures_in_a_row=0
    )
    enqueue(run)


def cancel(run: Run) -> None:
    """End the run now, also during an edit. Finished chains are kept."""
    if not run.move(RunState.CANCELLED, reason="", reason_text=""):
        raise CannotMove(f"A {run.get_state_display().lower()} run cannot be cancelled.")


@transaction.atomic
def play_again(run: Run, outcomes: tuple[str, ...] = PLAYABLE_AGAIN) -> int:
    """Queue the chains with these outcomes, from their last good image on.

    The same holds for chains that were stopped because their end was known, if the present
    scores leave it unknown.
    """
    # Of two simultaneous requests one waits here, and then has nothing left to do.
    run.refresh_from_db(from_queryset=Run.objects.select_for_update(of=("self",)))
    too_early = Q(outcome=Outcome.KNOWN, known_at=None)
    again = run.chains.filter(Q(outcome__in=outcomes) | too_early, state=ChainState.PLAYED)
    keys = list(again.values_list("pk", flat=True))
    if not keys:
        return 0
    is_public = run.finished_at is not None  # also while it is scored again
    if run.is_ended and not run.move(RunState.QUEUED, finished_at=None):
        raise CannotMove(f"A {run.get_state_display().lower()} run cannot be played again.")
    # An incomplete trip may hold the image that ended the chain.
    for rows in (Trip.objects, TripStep.objects):
        rows.filter(chain__in=keys, number__gt=F("chain__trips_played")).delete()
    _plan_again(run, keys, is_public)
    again = Chain.objects.filter(pk__in=keys)
    again.update(state=ChainState.WAITING, outcome="", outcome_text="")
    recount(run)
    if run.state in (RunState.SCORING, RunState.PAUSED):
        run.move(RunState.PLAYING) or run.move(RunState.QUEUED)
    enqueue(run)
    return len(keys)


def recover(run: Run) -> None:
    """Enqueue a search for images of the run that are missing from storage."""
    if not run.is_ended:
        raise CannotMove(f"A {run.get_state_display().lower()} run recovers its own images.")
    job_queue.enqueue(run.pk, job_queue.RECOVER, queue_of(run.editing_model))


@transaction.atomic
def play_from(run: Run, numbers: Mapping[int, int]) -> int:
    """Play chains of an ended run again, each (by its key) from this trip on.

    They count as lost until then.
    """
    for chain, number in numbers.items():
        for rows in (Trip.objects, TripStep.objects):
            rows.filter(chain=chain, number__gte=number).delete()
        run.chains.filter(pk=chain).update(
            outcome=Outcome.LOST,
            trips_played=number - 1,
            trips_scored=Least("trips_scored", number - 1),
            known_at=Case(When(known_at__lt=number, then=F("known_at"))),
        )
    return play_again(run, (Outcome.LOST,))


def _plan_again(run: Run, keys: Sequence[int], is_published: bool) -> None:
    """Plan the audits of trips that these chains still have to play.

    If the secret is public already (`is_published`), it is drawn again, since it reveals the audits.
    """
    unplayed = Audit.objects.filter(chain__in=keys, number__gt=F("chain__trips_played"))
    if not is_published:
        # An answered audit was made on an answer that is deleted.
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
    made = Audit.objects.bulk_create(
        Audit(chain=chain, number=audit.number, kind=audit.kind)
        for audit in _planned(run.secret, run.editing_model, run.suite, run.stop_after)
        if not run.arm_digest
        if (chain := chains.get((audit.case, audit.repeat))) and audit.number > chain.trips_played
    )
    run.progress.edits_total += len(made) - before
    run.progress.save(update_fields=["edits_total"])


@transaction.atomic
def score_again(run: Run) -> None:
    """Score with the present metrics. Scores of other versions are kept."""
    if run.state not in (RunState.FINISHED, RunState.PAUSED):
        raise CannotMove(f"A {run.get_state_display().lower()} run cannot be scored again.")
    # Without their tokens a running job cannot write scores of the old metrics.
    run.chains.update(trips_scored=0, known_at=None, score_token=None, score_lease_until=None)
    Audit.objects.filter(chain__run=run).update(finding={})
    run.metrics, run.progress.trips_scored = {}, 0
    run.save(update_fields=["metrics"])
    run.progress.save(update_fields=["trips_scored"])
    run.move(RunState.SCORING if run.state == RunState.FINISHED else RunState.QUEUED)
    enqueue(run)


@transaction.atomic
def recount(run: Run) -> None:
    """Derive the run's counters from its rows and its ledger."""
    # Locked first: what a waiting job then counts includes all that others have counted.
    progress = RunProgress.objects.select_for_update().get(pk=run.pk)
    ledger = Call.objects.filter(run=run).aggregate(
        calls=Count("pk", filter=~Q(outcome=Call.SYNTHETIC)),
        ours=Count("pk", filter=Q(outcome=Call.SYNTHETIC)),
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
    between = TripStep.objects.filter(chain__run=run).count()
    made = images["edited"] + images["restored"] + between + audits
    stopped = run.chains.filter(outcome__in=STOPPED).values_list("trips_played", flat=True)
    counters = {
        "calls": ledger["calls"],
        "spent_usd": ledger["spent"] or Decimal(0),
        "edit_seconds": ledger["seconds"] or 0.0,
        "edits_done": made - ledger["ours"],
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
    """Enqueue jobs for chains that can be played now, if there are any."""
    if run.state not in (RunState.QUEUED, RunState.PLAYING):
        return
    queue_name = queue_of(run.editing_model)
    free = run.chains.free().ready().count()
    room = min(free, Chain.objects.free_slots(run.editing_model))
    each = 1 if queue_name == job_queue.GPU else settings.MAX_CALLS_IN_FLIGHT
    if room or not run.chains.unplayed().exists():
        job_queue.enqueue(run.pk, job_queue.PLAY, queue_name, copies=max(1, -(-room // each)))


def queue_of(editing_model: EditingModel) -> str:
    """Return the queue that plays this model; `edits` for an unknown editor."""
    editor = editor_class(editing_model.editor)
    return editor.queue if editor else job_queue.EDITS


def editor_of(run: Run, on_security_event: Callable[[str, str], None] | None = None) -> Editor:
    """Return the run's editor, made with its model's options and key."""
    model = run.editing_model
    options: dict[str, Any] = dict(model.options)
    endpoints.check_key_destination(model.editor, options)
    ours = {
        "api_key": model.api_key.reveal() or None,
        # Never from the row: a submission must not get access to our network.
        **endpoints.rule_options(),
        "group": drawn(run.secret, "group", run.pk).hex(),
        "on_security_event": on_security_event,
    }
    taken: set[str] = set()
    with suppress(TypeError):
        taken = {field.name for field in dataclasses.fields(editor_class(model.editor))}  # type: ignore[arg-type]
    options |= {name: value for name, value in ours.items() if name in taken and value is not None}
    return load_editor(model.editor, **options)
