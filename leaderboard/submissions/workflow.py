"""The workflow of a submission: saved, tested, reviewed, evaluated, published.

On approval the API key moves to the model; the key is never shown. The submitter's actions, on the
page or over the API, return a sentence that reports the result, or raise NotPossible.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.forms import ModelForm
from django.utils import timezone

from leaderboard import endpoints, job_queue, jobs
from leaderboard.models import EditingModel, Run, Submission, Suite, Use
from leaderboard.models.entries import SUBMISSION_MOVES, free_slug, new_token
from leaderboard.models.runs import RunState
from leaderboard.operation.notifications import notify_submitter
from leaderboard.standings import refresh_ranks
from leaderboard.text import plain_text

log = structlog.get_logger(__name__)

State = Submission.State
MAX_REPLY = 2000
MAX_KEY = 500


def can_be_key(text: str) -> bool:
    """Return True if a text can be sent as a key: visible ASCII without spaces."""
    return 0 < len(text) <= MAX_KEY and text.isascii() and text.isprintable() and " " not in text


class NotPossible(Exception):
    """Raised if an action is not allowed now; the message is shown to the user."""


def count_test(submission: Submission) -> None:
    """Count a test of the endpoint. Raises NotPossible if a daily limit is reached.

    Tests are also counted by host, because one endpoint can be submitted several times.
    """
    limit = settings.PROBES_PER_DAY
    subjects = {
        "This submission": f"submission {submission.pk}",
        "This endpoint": f"host {endpoints.host_of(submission.endpoint_url)}",
    }
    if subject := Use.objects.take("probe", subjects, limit):
        raise NotPossible(
            f"{subject} was tested {limit} times in the last 24 hours. Please test it "
            "again tomorrow."
        )


def count_again(submission: Submission) -> None:
    """Count a submission again, since it was taken off the quota when its test failed.

    Raises NotPossible if a quota is used up.
    """
    message = endpoints.count_submission(
        submission.email, submission.remote_address, submission.endpoint_url
    )
    if message:
        raise NotPossible(message)


def similar(submission: Submission) -> list[Submission]:
    """Return other open submissions of the same endpoint or the same name."""
    same = Q(endpoint_url=submission.endpoint_url, model_id=submission.model_id) | Q(
        name__iexact=submission.name
    )
    ended = (State.WITHDRAWN, State.REJECTED)
    return list(
        Submission.objects.filter(same).exclude(pk=submission.pk).exclude(state__in=ended)[:5]
    )


def save_once(submission: Submission) -> Submission:
    """Save a new submission; if its form was sent before, return the first submission."""
    try:
        with transaction.atomic():
            submission.save()
    except IntegrityError:
        return Submission.objects.get(idempotency_key=submission.idempotency_key)
    notify_submitter(submission)
    job_queue.enqueue(submission.pk, job_queue.PROBE, job_queue.PROBES)
    return submission


def move(submission: Submission, to: str, *, seen: datetime | None = None, **fields: Any) -> None:
    """Change the state and notify the submitter. Raises NotPossible if the state forbids it.

    `seen` is the `updated_at` of the version that was reviewed; a later change prevents the move.
    """
    if not submission.move(to, seen=seen, **fields):
        if seen and submission.updated_at != seen and to in SUBMISSION_MOVES[submission.state]:
            raise NotPossible(
                "The submission changed while you reviewed it. Below is the new version: "
                "check it, then decide."
            )
        state = submission.get_state_display().lower()
        raise NotPossible(f"This cannot be done while the submission is “{state}”.")
    log.info("submission moved", submission=submission.pk, state=to)
    notify_submitter(submission)


@transaction.atomic
def approve(
    submission: Submission,
    *,
    suite: Suite,
    budget_calls: int | None,
    budget_usd: Any,
    by: Any,
    seen: datetime | None = None,
) -> Run:
    """Create the model and start its run; the key moves to the model."""
    move(submission, State.APPROVED, seen=seen, reviewed_by=by, reviewed_at=timezone.now())
    model = submission.editing_model or EditingModel(slug=free_slug(submission.name))
    model.name = submission.name
    model.provider = model.organisation = submission.organisation
    model.editor, model.access = "endpoint", EditingModel.Access.ENDPOINT
    model.options = endpoints.editor_options(submission)
    model.api_key = submission.api_key
    model.open_weights, model.licence = submission.open_weights, submission.licence
    model.paper_url, model.code_url = submission.paper_url, submission.code_url
    model.price_per_edit, model.price_date = submission.price_per_edit, timezone.localdate()
    model.max_in_flight = submission.max_in_flight
    model.save()
    submission.editing_model, submission.suite = model, suite
    submission.save(update_fields=["editing_model", "suite"])
    return jobs.start(model, suite, budget_calls=budget_calls, budget_usd=budget_usd)


def newest_run(submission: Submission) -> Run | None:
    """Return the model's newest run on the submission's suite.

    If the runs are prefetched, this takes no query. Staff may run the model on other suites,
    including sealed suites (with secret cases). The submitter must not see those runs.
    """
    model = submission.editing_model
    if model is None:
        return None
    runs = (r for r in model.runs.all() if r.suite_id == submission.suite_id and not r.arm_digest)
    return next(runs, None)


# The submitter's actions: each returns a sentence that reports the result.


def _lock(submission: Submission) -> None:
    """Lock and reload the submission, so that no other request can change it meanwhile."""
    submission.refresh_from_db(from_queryset=Submission.objects.select_for_update())


def _finished_run(submission: Submission) -> Run:
    """Lock the submission and return its finished run. Raises NotPossible."""
    _lock(submission)
    run = newest_run(submission)
    if submission.state != State.APPROVED or run is None or run.state != RunState.FINISHED:
        raise NotPossible("There is no result yet. It appears when the run has finished.")
    return run


def test_again(submission: Submission) -> str:
    """Test the endpoint once more."""
    with transaction.atomic():
        count_test(submission)
        if submission.state == State.PROBE_FAILED:
            count_again(submission)
        move(
            submission,
            State.PROBING,
            probe={},
            probe_sent=None,
            probe_edited=None,
            probe_restored=None,
            probed_at=None,
            probe_attempts=0,
            probe_lease_until=None,
        )
    job_queue.enqueue(submission.pk, job_queue.PROBE, job_queue.PROBES)
    return "The endpoint is being tested again."


@transaction.atomic
def correct(submission: Submission, form: ModelForm) -> str:
    """Store the endpoint of a valid form, and test it again."""
    # Move before saving: a reviewer may have decided while the new address was resolved.
    # The daily limit counts tests of the new host.
    submission.endpoint_url = form.cleaned_data["endpoint_url"]
    test_again(submission)
    form.save()
    return "Corrected. The endpoint is being tested again."


@transaction.atomic
def set_key(submission: Submission, key: str) -> str:
    """Replace the API key of the submission and its model; resume runs that wait for a key."""
    key = key.strip()
    if not can_be_key(key):
        raise NotPossible(f"A key has at most {MAX_KEY} characters, and no spaces or line breaks.")
    _lock(submission)
    if submission.state in (State.REJECTED, State.WITHDRAWN):
        raise NotPossible("This submission is closed, so it needs no key.")
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
    """Publish the finished result. Flags of audits (tests for cheating) keep it unranked."""
    run = _finished_run(submission)
    if run.withdrawn_at:
        raise NotPossible(f"{run.public_state} by an admin; please write to us.")
    Run.objects.filter(pk=run.pk).publish()
    refresh_ranks(run.suite)
    log.info("run published by its submitter", run=run.pk, submission=submission.pk)
    run.refresh_from_db()
    return f"{run.public_state}."


@transaction.atomic
def share(submission: Submission) -> str:
    """Create a link that shows the result before it is public; an older link stops working."""
    _finished_run(submission)
    submission.embargo_token = new_token()
    submission.save(update_fields=["embargo_token"])
    return "The link to share is ready. It shows the result and allows nothing else."


def unshare(submission: Submission) -> str:
    """Remove the link that shows the result."""
    submission.embargo_token = None
    submission.save(update_fields=["embargo_token"])
    return "The link to share no longer works."


@transaction.atomic
def withdraw(submission: Submission) -> str:
    """Withdraw a submission: cancel its runs, delete its key, withdraw its results."""
    move(submission, State.WITHDRAWN, api_key="", embargo_token=None)
    model = submission.editing_model
    if model:
        for run in model.runs.unfinished():
            with suppress(jobs.NotAllowed):  # the run has just ended
                jobs.cancel(run)
        model.runs.withdraw()
        rows = EditingModel.objects.filter(pk=model.pk)
        rows.update(api_key="", status=EditingModel.Status.HIDDEN)
        for suite in Suite.objects.filter(runs__editing_model=model).distinct():
            refresh_ranks(suite)
    return "The submission is withdrawn and its key is deleted."
