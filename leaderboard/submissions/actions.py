"""What submitters can do with their submission, on its page or by machine.

Each action says in a sentence what it did, or raises `NotPossible`.
"""

from __future__ import annotations

from contextlib import suppress

import structlog
from django.db import transaction

from leaderboard import job_queue, jobs
from leaderboard.models import EditingModel, Run, Submission, Suite
from leaderboard.models.entries import new_token
from leaderboard.models.runs import RunState
from leaderboard.standings import refresh_ranks
from leaderboard.submissions import workflow
from leaderboard.submissions.forms import MAX_KEY, EndpointForm, can_be_key
from leaderboard.submissions.workflow import NotPossible, move
from leaderboard.text import plain_text

log = structlog.get_logger(__name__)

State = Submission.State
MAX_REPLY = 2000


def _hold(submission: Submission) -> None:
    """The submission as it is now; nobody else decides anything before our transaction ends."""
    submission.refresh_from_db(from_queryset=Submission.objects.select_for_update())


def test_again(submission: Submission) -> str:
    """Have the endpoint tested once more."""
    with transaction.atomic():
        workflow.take_probe(submission)
        move(
            submission,
            State.PROBING,
            probe={},
            probe_sent=None,
            probe_edited=None,
            probe_returned=None,
            probed_at=None,
            probe_attempts=0,
            probe_lease_until=None,
        )
    job_queue.enqueue(submission.pk, job_queue.PROBE, job_queue.PROBES)
    return "The endpoint is being tested again."


@transaction.atomic
def correct(submission: Submission, form: EndpointForm) -> str:
    """Give the endpoint as it is in a valid form, and have it tested anew."""
    # First the move: to look the new address up took time, in which somebody may have decided.
    submission.endpoint_url = form.cleaned_data["endpoint_url"]  # the host whose test counts
    test_again(submission)
    form.save()
    return "Corrected. The endpoint is being tested again."


@transaction.atomic
def set_key(submission: Submission, key: str) -> str:
    """Replace the key, also of the model that came of it, and go on where a run waits for it."""
    key = key.strip()
    if not can_be_key(key):
        raise NotPossible(f"A key has at most {MAX_KEY} characters, and no spaces or line breaks.")
    _hold(submission)
    if submission.state in (State.REJECTED, State.WITHDRAWN):
        raise NotPossible("This submission is over; a key would not be used.")
    submission.api_key = key
    submission.save(update_fields=["api_key"])
    model = submission.editing_model
    if model:
        model.api_key = key
        model.save(update_fields=["api_key"])
        for run in model.runs.filter(state="paused", reason="key_rejected"):
            jobs.resume(run)
    elif submission.state == State.PROBE_FAILED:
        test_again(submission)
    return "The new key is stored. It is never shown again."


def reply(submission: Submission, text: str) -> str:
    """Answer the reviewers' question."""
    answer = plain_text(text)[:MAX_REPLY]
    if not answer:
        raise NotPossible("The answer is empty.")
    move(submission, State.REVIEW, reply=answer)
    return "Thank you, your answer is with the reviewers."


@transaction.atomic
def publish(submission: Submission) -> str:
    """Show the finished result to everybody; whether it is ranked, its flags decide."""
    _hold(submission)
    run = workflow.run_of(submission)
    if submission.state != State.APPROVED or run is None or run.state != RunState.FINISHED:
        raise NotPossible("There is no finished result to publish yet.")
    if run.withdrawn_at:
        raise NotPossible(f"{run.public_state} by an admin; please write to us.")
    Run.objects.filter(pk=run.pk).publish()
    refresh_ranks(run.suite)
    log.info("run published by its submitter", run=run.pk, submission=submission.pk)
    run.refresh_from_db()
    return f"{run.public_state}."


@transaction.atomic
def share(submission: Submission) -> str:
    """A new link under which the result can be seen before it is public; the old one dies."""
    _hold(submission)
    run = workflow.run_of(submission)
    if submission.state != State.APPROVED or run is None or run.state != RunState.FINISHED:
        raise NotPossible("There is no finished result to share yet.")
    submission.embargo_token = new_token()
    submission.save(update_fields=["embargo_token"])
    return "There is a link to share now. Whoever has it sees the result and can do nothing else."


def unshare(submission: Submission) -> str:
    """Have the link to share lead nowhere."""
    submission.embargo_token = None
    submission.save(update_fields=["embargo_token"])
    return "The link to share leads nowhere any more."


@transaction.atomic
def withdraw(submission: Submission) -> str:
    """End it: runs are cancelled, the key is forgotten, what was published says it is withdrawn."""
    move(submission, State.WITHDRAWN, api_key="", embargo_token=None)
    model = submission.editing_model
    if model:
        for run in model.runs.unfinished():
            with suppress(jobs.CannotMove):  # it ended by itself meanwhile
                jobs.cancel(run)
        model.runs.withdraw()
        rows = EditingModel.objects.filter(pk=model.pk)
        rows.update(api_key="", status=EditingModel.Status.HIDDEN)
        for suite in Suite.objects.filter(runs__editing_model=model).distinct():
            refresh_ranks(suite)
    return "The submission is withdrawn and its key is deleted."
