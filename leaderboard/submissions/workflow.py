"""What happens to a submission: tested, reviewed, evaluated; and who is told.

Every change of state is here. A submission's key is moved to its model when it
is approved and is never shown to anybody.
"""

from __future__ import annotations

import datetime
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.core.mail import send_mail
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.text import slugify

from evaluation.errors import EditorError
from evaluation.http.addresses import Rules
from evaluation.http.guarded_client import GuardedClient
from leaderboard.models import EditingModel, Run, SecurityEvent, Submission, Suite

log = structlog.get_logger(__name__)

State = Submission.State
#: From where each state can be reached.
MOVES: dict[str, tuple[str, ...]] = {
    State.PROBING: (State.PROBE_FAILED, State.REVIEW, State.ASKED),
    State.PROBE_FAILED: (State.PROBING,),
    State.REVIEW: (State.PROBING, State.ASKED),
    State.ASKED: (State.REVIEW,),
    State.APPROVED: (State.REVIEW, State.ASKED),
    State.REJECTED: (State.REVIEW, State.ASKED, State.PROBE_FAILED),
    State.WITHDRAWN: (State.PROBING, State.PROBE_FAILED, State.REVIEW, State.ASKED, State.APPROVED),
}


class NotPossible(Exception):
    """The submission is in a state from which this cannot be done; written for people."""


def rules() -> Rules:
    """What a submitted address may be, in the form, the test and every run: public, and not ours."""
    local, ours = settings.ALLOW_LOCAL_ENDPOINTS, list(settings.OWN_ADDRESSES)
    if not local:
        # The site's own address too: ALLOWED_HOSTS may say "*".
        ours += [*settings.ALLOWED_HOSTS, urlsplit(settings.SITE_URL).hostname or ""]
    return Rules(allow_local=local, deny=tuple(ours))


def check_address(url: str, **about: Any) -> str | None:
    """Why this address cannot be called, or None; blocked ones become security events."""

    def record(kind: str, detail: str) -> None:
        SecurityEvent.record(kind, detail, **about)

    client = GuardedClient(rules(), on_security_event=record)
    try:
        client.check(url, timeout=5)
    except EditorError as error:
        return error.message
    finally:
        client.close()
    return None


def over_quota(email: str, address: str | None, host: str) -> str | None:
    """Which daily quota is used up, in words; None when there is room."""
    since = timezone.now() - datetime.timedelta(days=1)
    recent = Submission.objects.filter(created_at__gte=since).exclude(state=State.WITHDRAWN)
    limit = settings.SUBMISSIONS_PER_DAY
    counts = {
        "this e-mail address": recent.filter(email__iexact=email).count(),
        "this endpoint": recent.filter(endpoint_url__icontains=f"//{host}").count() if host else 0,
        "your network address": recent.filter(remote_address=address).count() if address else 0,
    }
    for whose, count in counts.items():
        if count >= limit:
            return (
                f"{count} submissions came from {whose} in the last 24 hours; the limit is {limit}."
            )
    return None


def similar(submission: Submission) -> list[Submission]:
    """Other submissions of the same endpoint or the same name that are not over."""
    same = Q(endpoint_url=submission.endpoint_url, model_id=submission.model_id) | Q(
        name__iexact=submission.name
    )
    ended = (State.WITHDRAWN, State.REJECTED)
    return list(
        Submission.objects.filter(same).exclude(pk=submission.pk).exclude(state__in=ended)[:5]
    )


def endpoint_options(submission: Submission) -> dict[str, Any]:
    """What the endpoint editor is made with, without the key."""
    price = submission.price_per_edit
    return {
        "url": submission.endpoint_url,
        "contract": submission.contract,
        "model": submission.model_id,
        "price": None if price is None else float(price),
        **submission.options,
    }


def save_once(submission: Submission) -> Submission:
    """Save a new submission; the same form sent twice gives the first one again."""
    try:
        with transaction.atomic():
            submission.save()
    except IntegrityError:
        return Submission.objects.get(idempotency_key=submission.idempotency_key)
    _notify_submitter(submission)
    enqueue(submission)
    return submission


def enqueue(submission: Submission) -> None:
    """Ask a worker to test the endpoint; lost rings are rung again by the sweeper."""
    from leaderboard import queue

    queue.enqueue(submission.pk, queue.PROBE, queue.EDITS)


def move(submission: Submission, to: str, **fields: Any) -> None:
    """Move it, if that is allowed from where it stands in the database."""
    moved = Submission.objects.filter(pk=submission.pk, state__in=MOVES[to]).update(
        state=to, updated_at=timezone.now(), **fields
    )
    before = submission.get_state_display().lower()
    submission.refresh_from_db()
    if not moved:
        raise NotPossible(f"This cannot be done while the submission is “{before}”.")
    log.info("submission moved", submission=submission.pk, state=to)
    _notify_submitter(submission)


def probe_again(submission: Submission) -> None:
    move(submission, State.PROBING, probe={}, probed_at=None)
    enqueue(submission)


@transaction.atomic
def set_key(submission: Submission, key: str) -> None:
    """Replace the key, also of the model that came of it, and go on where a run waits for it."""
    from evaluation import jobs

    submission.api_key = key
    submission.save(update_fields=["api_key"])
    model = submission.editing_model
    if model:
        model.api_key = key
        model.save(update_fields=["api_key"])
        for run in model.runs.filter(state="paused", reason="key_rejected"):
            jobs.resume(run)
    elif submission.state == State.PROBE_FAILED:
        probe_again(submission)


@transaction.atomic
def approve(
    submission: Submission, *, suite: Suite, budget_calls: int | None, budget_usd: Any, by: Any
) -> Run:
    """Make the model and start its run; the key moves to the model."""
    from evaluation import jobs

    move(submission, State.APPROVED, reviewed_by=by)
    model = submission.editing_model or EditingModel(slug=_free_slug(submission.name))
    model.name = submission.name
    model.provider = model.organisation = submission.organisation
    model.editor, model.access = "endpoint", EditingModel.Access.ENDPOINT
    model.options = endpoint_options(submission)
    model.api_key = submission.api_key
    model.open_weights, model.licence = submission.open_weights, submission.licence
    model.paper_url, model.code_url = submission.paper_url, submission.code_url
    model.price_per_edit, model.price_date = submission.price_per_edit, timezone.localdate()
    model.max_in_flight = submission.max_in_flight
    model.save()
    submission.editing_model, submission.suite = model, suite
    submission.save(update_fields=["editing_model", "suite"])
    return jobs.start(model, suite, budget_calls=budget_calls, budget_usd=budget_usd)


@transaction.atomic
def withdraw(submission: Submission) -> None:
    """End it: runs are cancelled, the key is forgotten, what was published is hidden."""
    from evaluation import jobs
    from leaderboard.standings import refresh_ranks

    move(submission, State.WITHDRAWN, api_key="")
    model = submission.editing_model
    if model is None:
        return
    for run in model.runs.unfinished():
        with suppress(jobs.CannotMove):  # it ended by itself meanwhile
            jobs.cancel(run)
    EditingModel.objects.filter(pk=model.pk).update(api_key="", status=EditingModel.Status.HIDDEN)
    for suite in Suite.objects.filter(runs__editing_model=model).distinct():
        refresh_ranks(suite)


def run_of(submission: Submission) -> Run | None:
    """The newest run that came of it; asks nothing where runs were prefetched."""
    model = submission.editing_model
    return next(iter(model.runs.all()), None) if model else None


def _free_slug(name: str) -> str:
    base = slugify(name)[:70] or "model"
    taken = set(EditingModel.objects.filter(slug__startswith=base).values_list("slug", flat=True))
    return next(s for s in (base, *(f"{base}-{n}" for n in range(2, 10_000))) if s not in taken)


NEXT = {
    State.PROBING: "We are sending one small picture through your endpoint.",
    State.PROBE_FAILED: "The test did not pass. The failed step on this submission's page says why and how to mend it.",
    State.REVIEW: "The test passed. A person looks at it next.",
    State.ASKED: "We have a question; please answer it on this submission's page.",
    State.APPROVED: "Your model is being evaluated. This submission's page shows the progress.",
    State.REJECTED: "We will not evaluate this model. The reviewers say why.",
    State.WITHDRAWN: "The submission is withdrawn and its key is deleted.",
}


def _notify_submitter(submission: Submission) -> None:
    """A mail to the submitter when there is news; nothing where mail is not set up.

    A test made again is news only by its end, and only where that end is another one.
    """
    news = submission.state != submission.notified_state
    if not news or (submission.state == State.PROBING and submission.notified_state):
        return
    submission.notified_state = submission.state
    Submission.objects.filter(pk=submission.pk).update(notified_state=submission.state)
    address = settings.SITE_URL.rstrip("/") + submission.get_absolute_url()
    text = f"{NEXT[State(submission.state)]}\n\n{submission.message}\n\n{address}\n"
    subject = f"ConvergeBench: {submission.name}: {submission.get_state_display()}"

    def send() -> None:
        send_mail(subject, text, None, [submission.email], fail_silently=True)

    transaction.on_commit(send)
