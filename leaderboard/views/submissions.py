"""Submit a model endpoint, and follow what becomes of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.defaultfilters import pluralize
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.http import require_POST, require_safe

from evaluation.editors.contracts import CONTRACTS
from leaderboard import submissions
from leaderboard.forms import MAX_KEY, SubmissionForm, can_be_key, curl_line, plain_text
from leaderboard.models import Run, Submission, Suite
from leaderboard.models.runs import RunState
from leaderboard.progress import progress
from leaderboard.views.visitors import client_address, limited

EXAMPLE = Path(settings.BASE_DIR) / "evaluation" / "example_server.py"


@never_cache
def submit(request: HttpRequest) -> HttpResponse:
    """The form; a valid one is saved and its endpoint tested by a worker."""
    if request.method == "POST":
        if too_many := limited(request, "submit"):
            return too_many
        form = SubmissionForm(request.POST, remote_address=client_address(request))
        if form.is_valid():
            return redirect(form.save())
        status = 422
    else:
        form, status = SubmissionForm(), 200
    context = {
        "form": form,
        "curl": curl_line(form.data if form.is_bound else {**form.initial, **DEFAULTS}),
        "contracts": CONTRACTS.values(),
        "example": EXAMPLE.read_text(),
        "suites": Suite.objects.playable().defer("definition"),
        "local": settings.ALLOW_LOCAL_ENDPOINTS,
    }
    return render(request, "leaderboard/submit.html", context, status=status)


DEFAULTS = {
    "contract": "openai-edits",
    "send_seed": True,
    "send_response_format": True,
    "size": "input",
}


@require_POST
def preview(request: HttpRequest) -> HttpResponse:
    """The request that would be sent for what is in the form so far, as a curl line."""
    if too_many := limited(request, "preview", "600/h"):
        return too_many
    return HttpResponse(curl_line(request.POST), content_type="text/plain; charset=utf-8")


@never_cache
@require_safe
def status(request: HttpRequest, token: str) -> HttpResponse:
    """Where the submission stands, and what happens next."""
    submission = _submission(token)
    context = {
        "submission": submission,
        "state": _state(submission),
        "run": submissions.run_of(submission),
    }
    response = render(request, "leaderboard/submission.html", context)
    response["X-Robots-Tag"] = "noindex"
    # The address is the secret, so no other site is told of it. Not "no-referrer": a browser
    # would then post the page's forms with "Origin: null", which the CSRF check refuses.
    response["Referrer-Policy"] = "same-origin"
    return response


@require_safe
@cache_control(private=True, no_cache=True)
def status_json(request: HttpRequest, token: str) -> JsonResponse:
    """The same in a few hundred bytes, for polling."""
    return JsonResponse(_state(_submission(token)))


def _submission(token: str) -> Submission:
    rows = Submission.objects.select_related("suite", "editing_model")
    return get_object_or_404(rows.defer("suite__definition"), token=token)


def _state(submission: Submission) -> dict[str, Any]:
    run = submissions.run_of(submission)
    over = submission.state in (Submission.State.REJECTED, Submission.State.WITHDRAWN)
    on_board = bool(run and run.published and run.state == RunState.FINISHED)
    return {
        "state": submission.state,
        # The page is drawn anew when it changes: other things can be done or seen then.
        "stage": f"{submission.state}{' on the board' if on_board else ''}",
        "label": submission.get_state_display(),
        "next": _next(submission, run),
        "message": submission.message,
        "probe": submission.probe.get("steps", []),
        "probed": submission.probed_at is not None,
        "run": _run(run) if run else None,
        "ended": over or on_board or bool(run and run.state == RunState.CANCELLED),
        "queue": _queue(submission),
    }


def _next(submission: Submission, run: Any) -> str:
    if run and submission.state == Submission.State.APPROVED:
        if run.state == RunState.FINISHED:
            if run.published:
                return "Finished: your model is on the board."
            return "Finished. An admin looks at the result and publishes it."
        if run.state == RunState.PAUSED and run.reason == "key_rejected":
            return "Your endpoint rejected the key. Set a new one below and the run goes on."
        if run.state == RunState.PAUSED:
            return f"Paused: {run.reason_text} Every finished trip is kept."
    return submissions.NEXT[Submission.State(submission.state)]


def _queue(submission: Submission) -> str:
    """How many submissions wait for review before this one, in words."""
    if submission.state != Submission.State.REVIEW:
        return ""
    waiting = Submission.objects.filter(state=Submission.State.REVIEW)
    before = waiting.filter(created_at__lt=submission.created_at).count()
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


@require_POST
def act(request: HttpRequest, token: str) -> HttpResponse:
    """What the submitter can do: test again, set a new key, answer a question, withdraw."""
    submission = _submission(token)
    if too_many := limited(request, "act"):
        return too_many
    acts: dict[str, Callable[[], str]] = {
        "test": lambda: _test_again(submission),
        "key": lambda: _new_key(submission, request.POST.get("api_key", "").strip()),
        "reply": lambda: _reply(submission, request.POST.get("reply", "")),
        "withdraw": lambda: _withdraw(submission),
    }
    chosen = acts.get(request.POST.get("act", ""))
    if chosen is None:
        messages.error(request, "There is nothing of that name to do.")
    else:
        try:
            messages.success(request, chosen())
        except submissions.NotPossible as error:
            messages.error(request, str(error))
    return redirect(submission)


def _test_again(submission: Submission) -> str:
    submissions.probe_again(submission)
    return "The endpoint is being tested again."


def _new_key(submission: Submission, key: str) -> str:
    if not can_be_key(key):
        raise submissions.NotPossible(
            f"A key has at most {MAX_KEY} characters, and no spaces or line breaks."
        )
    if submission.state in (Submission.State.REJECTED, Submission.State.WITHDRAWN):
        raise submissions.NotPossible("This submission is over; a key would not be used.")
    submissions.set_key(submission, key)
    return "The new key is stored. It is never shown again."


def _reply(submission: Submission, text: str) -> str:
    reply = plain_text(text)[:2000]
    if not reply:
        raise submissions.NotPossible("The answer is empty.")
    submissions.move(submission, Submission.State.REVIEW, reply=reply)
    return "Thank you, your answer is with the reviewers."


def _withdraw(submission: Submission) -> str:
    submissions.withdraw(submission)
    return "The submission is withdrawn and its key is deleted."
