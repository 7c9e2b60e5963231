"""Submissions by machine, with the same steps as the page /submit/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Path, Router, Status
from ninja.errors import HttpError, Throttled, ValidationError
from ninja.pagination import paginate
from ninja.security import HttpBearer

from evaluation.content.suites import find_suite
from leaderboard.api.results import PROBLEMS, Page
from leaderboard.api.schemas import Problem
from leaderboard.api.submission_schemas import (
    Act,
    KeyIn,
    ReplyIn,
    SubmissionIn,
    SubmissionOut,
    form_data,
)
from leaderboard.models import ApiToken, Case, Run, Submission, Suite
from leaderboard.submissions import workflow
from leaderboard.submissions.forms import SubmissionForm
from leaderboard.submissions.workflow import NotPossible
from leaderboard.visitors import client_address, wait

Token = Annotated[str, Path(max_length=43, description="The submission's own token.")]
#: The errors of an action, also if the submission's state does not allow it.
REFUSED = {**PROBLEMS, 409: Problem}


class ApiTokenAuth(HttpBearer):
    """An API token, as `Authorization: Bearer cbt_…`."""

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        holder = ApiToken.objects.holding(token)
        # Tokens cannot be guessed; this limits the cost of attempts.
        if holder is None and (seconds := wait(request, "api-token")):
            raise Throttled(seconds)
        return holder


router = Router(tags=["submissions"])
signed = ApiTokenAuth()


@router.post(
    "",
    auth=signed,
    response={201: SubmissionOut, 401: Problem, **PROBLEMS},
    summary="Submit a model",
)
def submit(request: Any, response: HttpResponse, submission: SubmissionIn) -> Any:
    """Check a submission like the form at /submit/, save it and test its endpoint."""
    sender: ApiToken = request.auth
    suite = find_suite(submission.suite, list(Suite.objects.playable().defer("definition")))
    form = SubmissionForm(
        form_data(submission, sender, suite.pk if suite else None),
        remote_address=client_address(request),
        sender=sender,
    )
    saved = form.sent_before()
    if saved is None:
        _not_too_often(request, "submit")
        if not form.is_valid():
            raise _problem(form)
        saved = form.save()
    _keep_private(response)
    return Status(201, saved)


@router.get(
    "",
    auth=signed,
    response={200: list[SubmissionOut], 401: Problem, **PROBLEMS},
    summary="Your submissions",
)
@paginate(Page)
def submitted(request: Any) -> Any:
    """List the submissions of this API token, newest first."""
    cases = Prefetch("suite__cases", Case.objects.only("suite"))
    rows = _submissions().filter(api_token=request.auth).prefetch_related(cases)
    return rows.order_by("-created_at", "-pk")


@router.get("/{token}", response={200: SubmissionOut, **PROBLEMS}, summary="Where it stands")
def status(request: HttpRequest, response: HttpResponse, token: Token) -> Any:
    """Return state, test, place in the queue, progress, estimate and next step."""
    _keep_private(response)
    return _submission(token)


@router.post("/{token}/test", response={200: Act, **REFUSED}, summary="Test the endpoint again")
def test(request: HttpRequest, token: Token) -> Any:
    return _act(request, token, workflow.test_again)


@router.post("/{token}/key", response={200: Act, **REFUSED}, summary="Set a new key")
def key(request: HttpRequest, token: Token, key: KeyIn) -> Any:
    """Set the key; a run that waits for it continues, a failed test is repeated."""
    return _act(request, token, lambda submission: workflow.set_key(submission, key.api_key))


@router.post("/{token}/reply", response={200: Act, **REFUSED}, summary="Answer a question")
def reply(request: HttpRequest, token: Token, reply: ReplyIn) -> Any:
    return _act(request, token, lambda submission: workflow.reply(submission, reply.reply))


@router.post("/{token}/withdraw", response={200: Act, **REFUSED}, summary="Withdraw")
def withdraw(request: HttpRequest, token: Token) -> Any:
    """End the evaluation, delete the key and remove the model from the board."""
    return _act(request, token, workflow.withdraw)


def _act(request: HttpRequest, token: str, act: Callable[[Submission], str]) -> Act:
    submission = _submission(token)
    _not_too_often(request, "submission_act")
    try:
        done = act(submission)
    except NotPossible as error:
        raise HttpError(409, str(error)) from None
    submission.refresh_from_db(fields=["state"])
    return Act(detail=done, state=submission.state)


def _submissions() -> QuerySet[Submission]:
    rows = Submission.objects.select_related("suite", "editing_model").defer("suite__definition")
    return rows.prefetch_related(
        Prefetch(
            "editing_model__runs", Run.objects.select_related("suite").defer("suite__definition")
        )
    )


def _submission(token: str) -> Submission:
    submission = _submissions().filter(token=token).first()
    if submission is None:
        raise HttpError(404, "There is no such submission.")
    return submission


def _not_too_often(request: HttpRequest, what: str) -> None:
    """Raise Throttled beyond the limits of the page, which count both."""
    if seconds := wait(request, what):
        raise Throttled(seconds)


def _problem(form: SubmissionForm) -> Exception:
    """Return the errors of the form as an error of the API."""
    errors = form.errors.get_json_data()
    for error in errors.get("__all__", ()):
        if error["code"] == "quota":
            return HttpError(429, error["message"])
    return ValidationError(
        [
            {
                "type": error["code"] or "invalid",
                "loc": ["body", "submission", *([] if name == "__all__" else [name])],
                "msg": error["message"],
            }
            for name, rows in errors.items()
            for error in rows
        ]
    )


def _keep_private(response: HttpResponse) -> None:
    """Keep shared caches from storing answers with a submission's token."""
    response["Cache-Control"] = "private, no-cache"
