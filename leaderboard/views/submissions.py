"""Submit a model endpoint, and follow what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.http import require_POST, require_safe

from evaluation.editors.contracts import CONTRACTS
from leaderboard.models import Submission, Suite
from leaderboard.submissions import actions, workflow
from leaderboard.submissions.forms import SubmissionForm, curl_line
from leaderboard.submissions.status import state
from leaderboard.views.crawlers import noindex
from leaderboard.visitors import client_address, limited

EXAMPLE = Path(settings.BASE_DIR) / "evaluation" / "example_server.py"


@never_cache
def submit(request: HttpRequest) -> HttpResponse:
    """The form; a valid one is saved and its endpoint tested by a worker."""
    if request.method == "POST":
        if too_many := limited(request, "submit"):
            return too_many
        form = SubmissionForm(request.POST, remote_address=client_address(request))
        if before := form.sent_before():
            return redirect(before)
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
    if too_many := limited(request, "submit_preview"):
        return too_many
    return HttpResponse(curl_line(request.POST), content_type="text/plain; charset=utf-8")


@never_cache
@require_safe
@noindex
def status(request: HttpRequest, token: str) -> HttpResponse:
    """Where the submission stands, and what happens next."""
    submission = _submission(token)
    context = {
        "submission": submission,
        "state": state(submission),
        "run": workflow.run_of(submission),
    }
    response = render(request, "leaderboard/submission.html", context)
    # The address is the secret, so no other site is told of it. Not "no-referrer": a browser
    # would then post the page's forms with "Origin: null", which the CSRF check refuses.
    response["Referrer-Policy"] = "same-origin"
    return response


@require_safe
@cache_control(private=True, no_cache=True)
def status_json(request: HttpRequest, token: str) -> JsonResponse:
    """The same in a few hundred bytes, for polling."""
    return JsonResponse(state(_submission(token)))


def _submission(token: str) -> Submission:
    rows = Submission.objects.select_related("suite", "editing_model")
    return get_object_or_404(rows.defer("suite__definition"), token=token)


@require_POST
def act(request: HttpRequest, token: str) -> HttpResponse:
    """What the submitter can do: test again, set a new key, answer a question, withdraw."""
    submission = _submission(token)
    if too_many := limited(request, "submission_act"):
        return too_many
    known: dict[str, Callable[[], str]] = {
        "test": lambda: actions.test_again(submission),
        "key": lambda: actions.set_key(submission, request.POST.get("api_key", "")),
        "reply": lambda: actions.reply(submission, request.POST.get("reply", "")),
        "withdraw": lambda: actions.withdraw(submission),
    }
    chosen = known.get(request.POST.get("act", ""))
    if chosen is None:
        messages.error(request, "There is nothing of that name to do.")
    else:
        try:
            messages.success(request, chosen())
        except workflow.NotPossible as error:
            messages.error(request, str(error))
    return redirect(submission)
