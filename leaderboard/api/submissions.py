"""API endpoints for submissions, with the same steps as the page /submit/.

Fields, limits and descriptions are read from the form of that page.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from django import forms
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Field, Path, Router, Schema, Status
from ninja.errors import HttpError, Throttled, ValidationError
from ninja.pagination import paginate
from ninja.security import HttpBearer
from pydantic import AfterValidator, create_model

from evaluation.content.suites import find_suite
from evaluation.editors.contracts import CONTRACTS
from evaluation.estimate import Estimate
from leaderboard.api.results import PROBLEMS, Page
from leaderboard.api.schemas import Problem, RunStatusOut, Url, run_progress
from leaderboard.models import ApiToken, Case, Run, Submission, Suite
from leaderboard.submissions import status, workflow
from leaderboard.submissions.forms import SubmissionForm
from leaderboard.submissions.workflow import NotPossible
from leaderboard.visitors import client_address, seconds_to_wait

#: A hidden field of the form that only robots fill in.
LEFT_OUT = ("website",)
#: Fields with a better type in JSON than in a form, or with a default from the API token.
OVERRIDES: dict[str, tuple[Any, Any]] = {
    "contract": (
        Literal[tuple(CONTRACTS)],
        Field(description="The format of requests to your endpoint; /submit/ explains each one."),
    ),
    "extra": (
        dict[str, Any],
        Field({}, description="A JSON object that is merged into every request to your endpoint."),
    ),
    "suite": (
        str,
        Field(max_length=80, description="smoke-v2, or smoke for its newest version; see /suites."),
    ),
    "email": (
        str | None,
        Field(None, max_length=254, description="Default: the address of your API token."),
    ),
    "idempotency_key": (
        uuid.UUID | None,
        Field(
            None, description="A request with an earlier key returns the submission of that key."
        ),
    ),
}
#: JSON types by form field. The first match counts, because DecimalField is a subclass of
#: IntegerField.
TYPES = (
    (forms.BooleanField, bool),
    (forms.DecimalField, float),
    (forms.IntegerField, int),
)


def _field(name: str, field: forms.Field) -> tuple[Any, Any]:
    """Return the schema's type and limits for a field of the form."""
    if name in OVERRIDES:
        return OVERRIDES[name]
    kind = next((kind for cls, kind in TYPES if isinstance(field, cls)), str)
    label = str(field.label or name.replace("_", " ").capitalize())
    options: dict[str, Any] = {
        "description": f"{label}. {field.help_text}".strip(),
        "max_length": getattr(field, "max_length", None) if kind is str else None,
        "ge": getattr(field, "min_value", None),
        "le": getattr(field, "max_value", None),
    }
    if field.required and field.initial is None:
        return kind, Field(**options)
    if kind is bool:
        return bool, Field(bool(field.initial), **options)
    return kind | None, Field(field.initial, **options)


_fields: dict[str, Any] = {
    name: _field(name, field)
    for name, field in SubmissionForm.base_fields.items()
    if name not in LEFT_OUT
}
SubmissionIn: Any = create_model("SubmissionIn", __base__=Schema, **_fields)


def form_data(sent: Any, sender: ApiToken, suite_id: int | None) -> dict[str, Any]:
    """Return the request as data for the form."""
    values = {name: value for name, value in sent.dict().items() if value is not None}
    return values | {
        "email": sent.email or sender.email,
        "extra": json.dumps(sent.extra) if sent.extra else "",
        "suite": suite_id or "",
        "idempotency_key": sent.idempotency_key or uuid.uuid4(),
    }


class ProbeStep(Schema):
    name: str
    label: str
    state: str = Field(description="running, passed, warning, failed or skipped")
    detail: str
    advice: str = Field(description="How to fix a step that did not pass.")


class Probe(Schema):
    """The test of the endpoint: one round trip of a small image."""

    done: bool
    passed: bool | None = Field(description="null: the test is not done yet.")
    steps: list[ProbeStep]


class EstimateOut(Schema):
    """The estimated cost and time of a run of the suite."""

    edits: int
    usd: float | None = Field(description="null: no price was given.")
    hours: Annotated[float, AfterValidator(lambda hours: round(hours, 2))] = Field(
        description="At 10 s per edit, until the pace of your endpoint is known."
    )


class SubmissionOut(Schema):
    token: str = Field(description="The submission's secret token. Keep it private.")
    page: Url = Field(alias="get_absolute_url", description="The submission's page for people.")
    status: Url = Field(description="The URL to poll for the status.")
    name: str
    suite: str = Field(alias="suite.key")
    state: str = Field(
        description="probing, probe_failed, review, asked, approved, rejected or withdrawn"
    )
    label: str = Field(alias="get_state_display")
    next: str = Field(description="A sentence on the next step.")
    message: str = Field(description="A question or a reason from the reviewers.")
    ended: bool = Field(description="True when the state is final: stop polling.")
    probe: Probe
    reviews_before: int | None = Field(
        description="Submissions that will be reviewed before this one."
    )
    estimate: EstimateOut
    run: RunStatusOut | None = Field(description="null: the submission is not approved yet.")
    created_at: datetime
    updated_at: datetime

    @staticmethod
    def resolve_status(submission: Submission) -> str:
        return f"/api/v1/submissions/{submission.token}"

    @staticmethod
    def resolve_next(submission: Submission) -> str:
        return status.what_next(submission, workflow.newest_run(submission))

    @staticmethod
    def resolve_ended(submission: Submission) -> bool:
        return status.has_ended(submission, workflow.newest_run(submission))

    @staticmethod
    def resolve_reviews_before(submission: Submission) -> int | None:
        return status.reviews_before(submission)

    @staticmethod
    def resolve_estimate(submission: Submission) -> Estimate:
        return status.estimate(submission)

    @staticmethod
    def resolve_probe(submission: Submission) -> dict[str, Any]:
        done, probe = submission.probed_at is not None, submission.probe
        passed = probe.get("ok") if done else None
        return {"done": done, "passed": passed, "steps": probe.get("steps", [])}

    @staticmethod
    def resolve_run(submission: Submission) -> dict[str, Any] | None:
        run = workflow.newest_run(submission)
        return run_progress(run) if run else None


class KeyIn(Schema):
    api_key: str = Field(description="The new key of your endpoint. It is never shown again.")


class ReplyIn(Schema):
    reply: str = Field(description="Your answer to the reviewers' question.")


class Act(Schema):
    detail: str = Field(description="A sentence on what was done.")
    state: str


Token = Annotated[str, Path(max_length=43, description="The submission's own token.")]
#: Errors of an action, including 409 if the submission's state does not allow it.
REFUSED = {**PROBLEMS, 409: Problem}


class ApiTokenAuth(HttpBearer):
    """An API token, as `Authorization: Bearer cbt_…`."""

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        holder = ApiToken.objects.with_secret(token)
        # Tokens cannot be guessed; the limit bounds the load that attempts cause.
        if holder is None and (seconds := seconds_to_wait(request, "api-token")):
            raise Throttled(seconds)
        return holder


router = Router(tags=["submissions"])
token_auth = ApiTokenAuth()


@router.post(
    "",
    auth=token_auth,
    response={201: SubmissionOut, 401: Problem, **PROBLEMS},
    summary="Submit a model",
)
def submit(request: Any, response: HttpResponse, submission: SubmissionIn) -> Any:
    """Submit a model as the form at /submit/ does. The model's endpoint is then tested."""
    sender: ApiToken = request.auth
    suite = find_suite(submission.suite, list(Suite.objects.playable().defer("definition")))
    form = SubmissionForm(
        form_data(submission, sender, suite.pk if suite else None),
        remote_address=client_address(request),
        sender=sender,
    )
    saved = form.sent_before()
    if saved is None:
        _check_rate(request, "submit")
        if not form.is_valid():
            raise _problem(form)
        saved = form.save()
    _keep_private(response)
    return Status(201, saved)


@router.get(
    "",
    auth=token_auth,
    response={200: list[SubmissionOut], 401: Problem, **PROBLEMS},
    summary="Your submissions",
)
@paginate(Page)
def submitted(request: Any) -> Any:
    """List the submissions made with this API token, newest first."""
    cases = Prefetch("suite__cases", Case.objects.only("suite"))
    rows = _submissions().filter(api_token=request.auth).prefetch_related(cases)
    return rows.order_by("-created_at", "-pk")


@router.get("/{token}", response={200: SubmissionOut, **PROBLEMS}, summary="Status of a submission")
def state(request: HttpRequest, response: HttpResponse, token: Token) -> Any:
    """Return the state, test result, place in the queue, progress and next step."""
    _keep_private(response)
    return _submission(token)


@router.post("/{token}/test", response={200: Act, **REFUSED}, summary="Test the endpoint again")
def test(request: HttpRequest, token: Token) -> Any:
    return _act(request, token, workflow.test_again)


@router.post("/{token}/key", response={200: Act, **REFUSED}, summary="Set a new key")
def key(request: HttpRequest, token: Token, key: KeyIn) -> Any:
    """Set the key. A run that waits for a key continues, and a failed test is repeated."""
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
    _check_rate(request, "submission_act")
    try:
        detail = act(submission)
    except NotPossible as error:
        raise HttpError(409, str(error)) from None
    submission.refresh_from_db(fields=["state"])
    return Act(detail=detail, state=submission.state)


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


def _check_rate(request: HttpRequest, limit: str) -> None:
    """Raise Throttled if the rate limit, which the pages share, is exceeded."""
    if seconds := seconds_to_wait(request, limit):
        raise Throttled(seconds)


def _problem(form: SubmissionForm) -> Exception:
    """Return the form's errors as an exception of the API."""
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
    """Keep shared caches from storing responses that contain a submission's token."""
    response["Cache-Control"] = "private, no-cache"
