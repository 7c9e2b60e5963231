"""The fields of a submission by machine, and the answers to it.

The fields are read from the form of the page, so that there is one list of them, one set of
limits and one set of words.
"""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from django import forms
from ninja import Field, Schema
from pydantic import AfterValidator, create_model

from evaluation.editors.contracts import CONTRACTS
from evaluation.estimate import Estimate
from leaderboard.api.schemas import RunStatusOut, Url, run_progress
from leaderboard.models import ApiToken, Submission
from leaderboard.submissions import status, workflow
from leaderboard.submissions.forms import SubmissionForm

#: The trap of the form for robots that fill in every field.
LEFT_OUT = ("website",)
#: Fields for which JSON has a better type than a form, or the sender's token has the value.
OTHERWISE: dict[str, tuple[Any, Any]] = {
    "contract": (
        Literal[tuple(CONTRACTS)],
        Field(description="How your endpoint is called; /submit/ explains each."),
    ),
    "extra": (
        dict[str, Any],
        Field({}, description="A JSON object, merged into every request to your endpoint."),
    ),
    "suite": (
        str,
        Field(max_length=80, description="smoke-v2, or smoke for its newest; see /suites."),
    ),
    "email": (
        str | None,
        Field(None, max_length=254, description="Default: that of your API token."),
    ),
    "idempotency_key": (
        uuid.UUID | None,
        Field(None, description="The same key again gives the same submission again."),
    ),
}
#: The first match counts: in Django a DecimalField is an IntegerField.
TYPES = (
    (forms.BooleanField, bool),
    (forms.DecimalField, float),
    (forms.IntegerField, int),
)


def _field(name: str, field: forms.Field) -> tuple[Any, Any]:
    """Return the type and limits of one field of the form, for JSON."""
    if name in OTHERWISE:
        return OTHERWISE[name]
    kind = next((kind for cls, kind in TYPES if isinstance(field, cls)), str)
    label = str(field.label or name.replace("_", " ").capitalize())
    about: dict[str, Any] = {
        "description": f"{label}. {field.help_text}".strip(),
        "max_length": getattr(field, "max_length", None) if kind is str else None,
        "ge": getattr(field, "min_value", None),
        "le": getattr(field, "max_value", None),
    }
    if field.required and field.initial is None:
        return kind, Field(**about)
    if kind is bool:
        return bool, Field(bool(field.initial), **about)
    return kind | None, Field(field.initial, **about)


_fields: dict[str, Any] = {
    name: _field(name, field)
    for name, field in SubmissionForm.base_fields.items()
    if name not in LEFT_OUT
}
SubmissionIn: Any = create_model("SubmissionIn", __base__=Schema, **_fields)


def form_data(sent: Any, sender: ApiToken, suite_id: int | None) -> dict[str, Any]:
    """Return the request as data of the form."""
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
    advice: str = Field(description="How to mend what is wrong.")


class Probe(Schema):
    """The test of the endpoint: one small image there and back."""

    done: bool
    passed: bool | None = Field(description="None: not done yet.")
    steps: list[ProbeStep]


class EstimateOut(Schema):
    """The estimated cost and time of a run of the suite."""

    edits: int
    usd: float | None = Field(description="None: no price was given.")
    hours: Annotated[float, AfterValidator(lambda hours: round(hours, 2))] = Field(
        description="At 10 s an edit, until your endpoint's own pace is known."
    )


class SubmissionOut(Schema):
    token: str = Field(description="The submission's own secret: keep it, and keep it to yourself.")
    page: Url = Field(alias="get_absolute_url", description="The same for people.")
    status: Url = Field(description="Where to ask how it stands.")
    name: str
    suite: str = Field(alias="suite.key")
    state: str = Field(
        description="probing, probe_failed, review, asked, approved, rejected or withdrawn"
    )
    label: str = Field(alias="get_state_display")
    next: str = Field(description="What happens next, in words.")
    message: str = Field(description="A question or a reason from the reviewers.")
    ended: bool = Field(description="Nothing more will happen; stop asking.")
    probe: Probe
    reviews_before: int | None = Field(description="Submissions that are reviewed before this one.")
    estimate: EstimateOut
    run: RunStatusOut | None = Field(description="None: not approved yet.")
    created_at: datetime
    updated_at: datetime

    @staticmethod
    def resolve_status(submission: Submission) -> str:
        return f"/api/v1/submissions/{submission.token}"

    @staticmethod
    def resolve_next(submission: Submission) -> str:
        return status.what_next(submission, workflow.run_of(submission))

    @staticmethod
    def resolve_ended(submission: Submission) -> bool:
        return status.has_ended(submission, workflow.run_of(submission))

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
        run = workflow.run_of(submission)
        return run_progress(run) if run else None


class KeyIn(Schema):
    api_key: str = Field(description="Replaces the key of your endpoint; never shown again.")


class ReplyIn(Schema):
    reply: str = Field(description="Your answer to the reviewers' question.")


class Act(Schema):
    detail: str = Field(description="What was done, in words.")
    state: str
