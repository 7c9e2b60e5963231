"""Pages to submit a model endpoint and to follow its submission."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from django.conf import settings
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.http import require_POST, require_safe

from evaluation.editors.contracts import CONTRACTS, find_contract
from evaluation.images import ImageError
from leaderboard.models import Submission, Suite
from leaderboard.models.entries import SUBMISSION_MOVES
from leaderboard.submissions import status as stages
from leaderboard.submissions import workflow
from leaderboard.submissions.forms import EndpointForm, SubmissionForm, form_curl, submission_curl
from leaderboard.text import absolute
from leaderboard.views import images
from leaderboard.views.site import noindex
from leaderboard.visitors import client_address, limited

State = Submission.State
ROOT = Path(settings.BASE_DIR)
#: Example servers, the simplest first.
EXAMPLES = {
    "Plain Python": ROOT / "examples" / "example_server.py",
    "FastAPI": ROOT / "examples" / "fastapi_server.py",
    "Gradio": ROOT / "examples" / "gradio_server.py",
    "Cog": ROOT / "examples" / "cog" / "predict.py",
}


@never_cache
def submit(request: HttpRequest) -> HttpResponse:
    """Show the form. A valid submission is saved, and a worker then tests its endpoint."""
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
        "curl": form_curl(form.data if form.is_bound else {**form.initial, **DEFAULTS}),
        "contracts": [find_contract(name) for name in CONTRACTS],
        "examples": [(name, path.name, path.read_text()) for name, path in EXAMPLES.items()],
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
    """Serve the request that the form describes so far, as a curl command."""
    if too_many := limited(request, "submit_preview"):
        return too_many
    return HttpResponse(form_curl(request.POST), content_type="text/plain; charset=utf-8")


@never_cache
@require_safe
@noindex
def status(request: HttpRequest, token: str) -> HttpResponse:
    """Show the submission's page: its state and the next step."""
    return _page(request, _submission(token))


def _page(
    request: HttpRequest, submission: Submission, form: EndpointForm | None = None
) -> HttpResponse:
    """Return the submission's page. `form` is an invalid correction that was just sent."""
    run = workflow.newest_run(submission)
    correctable = Submission.State.PROBING in SUBMISSION_MOVES[submission.state]
    context = {
        "submission": submission,
        "state": stages.state(submission),
        "step": stages.step(submission, run),
        "run": run,
        "token": submission.token,
        "cost": stages.cost(submission),
        "result": stages.result(run),
        "curl": submission_curl(submission),
        "correction": (form or EndpointForm(instance=submission)) if correctable else None,
        "embargo": submission.embargo_token
        and absolute(reverse("embargo", args=[submission.embargo_token])),
    }
    response = render(request, "leaderboard/submission.html", context, status=422 if form else 200)
    return _private(response)


def _private(response: HttpResponse) -> HttpResponse:
    # The URL is secret, so it must not reach other sites. "no-referrer" would be too strict:
    # browsers would post the page's forms with "Origin: null", which the CSRF check refuses.
    response["Referrer-Policy"] = "same-origin"
    return response


@require_safe
@cache_control(private=True, no_cache=True)
def status_json(request: HttpRequest, token: str) -> JsonResponse:
    """Serve the submission's state as JSON, for polling."""
    return JsonResponse(stages.state(_submission(token)))


@never_cache
@require_safe
@noindex
def embargo(request: HttpRequest, token: str) -> HttpResponse:
    """Show an unpublished result to anyone who has the link that the submitter shared."""
    submission = get_object_or_404(_submissions(), embargo_token=token)
    run = workflow.newest_run(submission)
    result = stages.result(run)
    withdrawn = submission.state != State.APPROVED or (run and run.withdrawn_at)
    if run is None or result is None or withdrawn:
        raise Http404
    if run.published:
        return redirect(run.editing_model)
    context = {"submission": submission, "run": run, "result": result, "token": token}
    return _private(render(request, "leaderboard/embargo.html", context))


@require_safe
def image(request: HttpRequest, token: str, variant: str, sha256: str) -> HttpResponseBase:
    """Serve an image of the test or of an unpublished run; `token` is from either secret link."""
    submission = get_object_or_404(_submissions(), Q(token=token) | Q(embargo_token=token))
    is_shared_link = submission.token != token
    probe_images = [] if is_shared_link else [stored for _, stored in submission.probe_images]
    probe_image = next((stored for stored in probe_images if stored.pk == sha256), None)
    run = workflow.newest_run(submission)
    # A shared link gives access only to what its page shows.
    if is_shared_link and (run is None or run.withdrawn_at or submission.state != State.APPROVED):
        raise Http404
    stored = probe_image or stages.image(run, sha256)
    if stored is None:
        raise Http404
    try:
        return images.with_image_headers(
            images.content(stored, variant), variant, sha256, images.PRIVATE
        )
    except (FileNotFoundError, ImageError):
        raise Http404(images.MISSING) from None


def _submissions() -> QuerySet[Submission]:
    rows = Submission.objects.select_related(
        "suite", "editing_model", "probe_sent", "probe_edited", "probe_restored"
    )
    return rows.defer("suite__definition")


def _submission(token: str) -> Submission:
    return get_object_or_404(_submissions(), token=token)


@require_POST
def act(request: HttpRequest, token: str) -> HttpResponse:
    """Perform an action of the submitter, such as testing again or withdrawing."""
    submission = _submission(token)
    if too_many := limited(request, "submission_act"):
        return too_many
    action = request.POST.get("act", "")
    form = EndpointForm(request.POST, instance=_submission(token)) if action == "correct" else None
    if form is not None and not form.is_valid():
        form.mark_errors()
        return _page(request, submission, form)
    actions: dict[str, Callable[[], str]] = {
        "test": lambda: workflow.test_again(submission),
        "correct": lambda: workflow.correct(submission, cast(EndpointForm, form)),
        "key": lambda: workflow.set_key(submission, request.POST.get("api_key", "")),
        "reply": lambda: workflow.reply(submission, request.POST.get("reply", "")),
        "publish": lambda: workflow.publish(submission),
        "share": lambda: workflow.share(submission),
        "unshare": lambda: workflow.unshare(submission),
        "withdraw": lambda: _withdraw(request, submission),
    }
    if action not in actions:
        messages.error(request, "There is no such action.")
    else:
        try:
            messages.success(request, actions[action]())
        except workflow.NotPossible as error:
            messages.error(request, str(error))
    return redirect(submission)


def _withdraw(request: HttpRequest, submission: Submission) -> str:
    if "sure" not in request.POST:
        raise workflow.NotPossible("Nothing was withdrawn. Tick the box to confirm.")
    return workflow.withdraw(submission)
