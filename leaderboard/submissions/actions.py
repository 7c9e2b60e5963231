"""What submitters can do with their submission, on its page or by machine.

Each action says in a sentence what it did, or raises `NotPossible`.
"""

from __future__ import annotations

from contextlib import suppress

from django.db import transaction

from evaluation import jobs
from leaderboard import queue
from leaderboard.models import EditingModel, Submission, Suite
from leaderboard.standings import refresh_ranks
from leaderboard.submissions import workflow
from leaderboard.submissions.forms import MAX_KEY, can_be_key
from leaderboard.submissions.workflow import NotPossible, move
from leaderboard.text import plain_text

State = Submission.State
MAX_REPLY = 2000


def test_again(submission: Submission) -> str:
    """Have the endpoint tested once more."""
    with transaction.atomic():
        workflow.take_probe(submission)
        move(
            submission,
            State.PROBING,
            probe={},
            probed_at=None,
            probe_attempts=0,
            probe_lease_until=None,
        )
    queue.enqueue(submission.pk, queue.PROBE, queue.PROBES)
    return "The endpoint is being tested again."


@transaction.atomic
def set_key(submission: Submission, key: str) -> str:
    """Replace the key, also of the model that came of it, and go on where a run waits for it."""
    key = key.strip()
    if not can_be_key(key):
        raise NotPossible(f"A key has at most {MAX_KEY} characters, and no spaces or line breaks.")
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
def withdraw(submission: Submission) -> str:
    """End it: runs are cancelled, the key is forgotten, what was published is hidden."""
    move(submission, State.WITHDRAWN, api_key="")
    model = submission.editing_model
    if model:
        for run in model.runs.unfinished():
            with suppress(jobs.CannotMove):  # it ended by itself meanwhile
                jobs.cancel(run)
        rows = EditingModel.objects.filter(pk=model.pk)
        rows.update(api_key="", status=EditingModel.Status.HIDDEN)
        for suite in Suite.objects.filter(runs__editing_model=model).distinct():
            refresh_ranks(suite)
    return "The submission is withdrawn and its key is deleted."
