"""What happens to a submission: saved, tested, reviewed, evaluated.

Its key is moved to its model when it is approved and is never shown to anybody.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from leaderboard import endpoints, job_queue, jobs
from leaderboard.models import EditingModel, Run, Submission, Suite, Use
from leaderboard.models.entries import SUBMISSION_MOVES, free_slug
from leaderboard.operation.notifications import notify_submitter
from leaderboard.visitors import network_of

log = structlog.get_logger(__name__)

State = Submission.State


class NotPossible(Exception):
    """The submission is in a state from which this cannot be done; written for people."""


def take_submission(email: str, address: str | None, url: str) -> str | None:
    """Count a new submission; which daily quota is used up, in words, when there is no room."""
    host = endpoints.host_of(url)
    limit = settings.SUBMISSIONS_PER_DAY
    subjects = {"this e-mail address": f"e-mail {email}", "this endpoint": f"host {host}"}
    if address:
        subjects["your network address"] = f"network {network_of(address)}"
    full = Use.objects.take("submission", subjects, limit)
    return full and (
        f"{limit} submissions came from {full} in the last 24 hours; the limit is {limit}."
    )


def take_probe(submission: Submission) -> None:
    """Count a test of the endpoint; NotPossible when it was tested often enough for a day.

    By its host too: the same endpoint submitted anew is still the same endpoint.
    """
    limit = settings.PROBES_PER_DAY
    subjects = {
        "This submission": f"submission {submission.pk}",
        "This endpoint": f"host {endpoints.host_of(submission.endpoint_url)}",
    }
    if full := Use.objects.take("probe", subjects, limit):
        raise NotPossible(f"{full} was tested {limit} times in the last 24 hours: that is enough.")


def similar(submission: Submission) -> list[Submission]:
    """Other submissions of the same endpoint or the same name that are not over."""
    same = Q(endpoint_url=submission.endpoint_url, model_id=submission.model_id) | Q(
        name__iexact=submission.name
    )
    ended = (State.WITHDRAWN, State.REJECTED)
    return list(
        Submission.objects.filter(same).exclude(pk=submission.pk).exclude(state__in=ended)[:5]
    )


def save_once(submission: Submission) -> Submission:
    """Save a new submission; the same form sent twice gives the first one again."""
    try:
        with transaction.atomic():
            submission.save()
    except IntegrityError:
        return Submission.objects.get(idempotency_key=submission.idempotency_key)
    notify_submitter(submission)
    job_queue.enqueue(submission.pk, job_queue.PROBE, job_queue.PROBES)
    return submission


def move(submission: Submission, to: str, *, seen: datetime | None = None, **fields: Any) -> None:
    """Move it and tell the submitter; NotPossible where it stands in another state by now.

    `seen`: when what the decision rests on was last changed; nothing else is decided on.
    """
    if not submission.move(to, seen=seen, **fields):
        if seen and submission.updated_at != seen and to in SUBMISSION_MOVES[submission.state]:
            raise NotPossible(
                "The submission was changed while you looked at it. Below it is as it stands now: "
                "look again, then decide."
            )
        now = submission.get_state_display().lower()
        raise NotPossible(f"This cannot be done while the submission is “{now}”.")
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
    """Make the model and start its run; the key moves to the model."""
    move(submission, State.APPROVED, seen=seen, reviewed_by=by, reviewed_at=timezone.now())
    model = submission.editing_model or EditingModel(slug=free_slug(submission.name))
    model.name = submission.name
    model.provider = model.organisation = submission.organisation
    model.editor, model.access = "endpoint", EditingModel.Access.ENDPOINT
    model.options = endpoints.own_options(submission)
    model.api_key = submission.api_key
    model.open_weights, model.licence = submission.open_weights, submission.licence
    model.paper_url, model.code_url = submission.paper_url, submission.code_url
    model.price_per_edit, model.price_date = submission.price_per_edit, timezone.localdate()
    model.max_in_flight = submission.max_in_flight
    model.save()
    submission.editing_model, submission.suite = model, suite
    submission.save(update_fields=["editing_model", "suite"])
    return jobs.start(model, suite, budget_calls=budget_calls, budget_usd=budget_usd)


def run_of(submission: Submission) -> Run | None:
    """The newest run on its suite that came of it; asks nothing where runs were prefetched.

    Staff may play the model elsewhere too, on a sealed suite even: that is not the submitter's.
    """
    model = submission.editing_model
    if model is None:
        return None
    own = (r for r in model.runs.all() if r.suite_id == submission.suite_id and not r.arm_digest)
    return next(own, None)
