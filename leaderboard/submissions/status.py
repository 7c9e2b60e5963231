"""Where a submission stands, for its page and for machines alike."""

from __future__ import annotations

import math
from typing import Any

from django.conf import settings
from django.template.defaultfilters import pluralize

from evaluation.audits.plan import audit_count
from evaluation.estimate import Estimate
from leaderboard.models import EditingModel, Run, Submission
from leaderboard.models.runs import RunState
from leaderboard.notifications import NEXT
from leaderboard.pages.progress import progress
from leaderboard.submissions import workflow


def state(submission: Submission) -> dict[str, Any]:
    """State, test, queue, run and what comes next; nothing in it is secret."""
    run = workflow.run_of(submission)
    return {
        "state": submission.state,
        # The page is drawn anew when it changes: other things can be done or seen then.
        "stage": f"{submission.state}{' on the board' if _is_on_board(run) else ''}",
        "label": submission.get_state_display(),
        "next": what_next(submission, run),
        "message": submission.message,
        "probe": submission.probe.get("steps", []),
        "probed": submission.probed_at is not None,
        "run": _run(run) if run else None,
        "ended": has_ended(submission, run),
        "queue": _queue(submission),
    }


def has_ended(submission: Submission, run: Run | None) -> bool:
    """Whether nothing more will happen."""
    over = submission.state in (Submission.State.REJECTED, Submission.State.WITHDRAWN)
    return over or _is_on_board(run) or bool(run and run.state == RunState.CANCELLED)


def what_next(submission: Submission, run: Run | None) -> str:
    """What happens next, in a sentence."""
    if run and submission.state == Submission.State.APPROVED:
        if run.state == RunState.FINISHED:
            if run.published:
                return "Finished: your model is on the board."
            return "Finished. An admin looks at the result and publishes it."
        if run.state == RunState.PAUSED and run.reason == "key_rejected":
            return "Your endpoint rejected the key. Set a new one and the run goes on."
        if run.state == RunState.PAUSED:
            return f"Paused: {run.reason_text} Every finished trip is kept."
    return NEXT[Submission.State(submission.state)]


def reviews_before(submission: Submission) -> int | None:
    """How many submissions wait for review before this one; None where it does not wait."""
    if submission.state != Submission.State.REVIEW:
        return None
    waiting = Submission.objects.filter(state=Submission.State.REVIEW)
    return waiting.filter(created_at__lt=submission.created_at).count()


def estimate(submission: Submission) -> Estimate:
    """Edits, price and hours of a run on the suite that was asked for."""
    model = submission.editing_model or EditingModel(
        price_per_edit=submission.price_per_edit, max_in_flight=submission.max_in_flight
    )
    suite = submission.suite
    cases, chains = suite.case_and_chain_count
    audits = audit_count(cases, settings.AUDITS)
    return model.estimate(2 * suite.trips * chains + audits, chains)


def _is_on_board(run: Run | None) -> bool:
    return bool(run and run.published and run.state == RunState.FINISHED)


def _queue(submission: Submission) -> str:
    before = reviews_before(submission)
    if before is None:
        return ""
    if not before:
        return "Yours is the next to be reviewed."
    return f"{before} submission{pluralize(before)} will be reviewed before yours."


def _run(run: Run) -> dict[str, Any]:
    """How far the evaluation is, as numbers for the bar and in words."""
    now = progress(run)
    edits, trips = now["edits"], now["trips"]
    if now["position"]:
        before = now["position"] - 1
        words = f"Queued: {before} run{pluralize(before)} before this one."
    else:
        words = (
            f"{now['label']}: {edits['done']:,} of {edits['total']:,} edits, "
            f"{trips['scored']:,} trips scored{_time_left(now['seconds_left'])}."
        )
    return {"done": edits["done"], "total": edits["total"], "words": words}


def _time_left(seconds: float | None) -> str:
    if not seconds:
        return ""
    minutes = math.ceil(seconds / 60)
    return f", about {minutes} min left" if minutes < 120 else f", about {minutes / 60:.0f} h left"
