"""Submissions by API: authentication, the same checks as on the page, and no secrets."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from leaderboard import jobs
from leaderboard.api.submissions import LEFT_OUT, SubmissionIn
from leaderboard.models import ApiToken, EditingModel, Run, SecurityEvent, Submission
from leaderboard.models.runs import RunState
from leaderboard.submissions import workflow
from leaderboard.submissions.forms import SubmissionForm
from leaderboard.testing.boards import make_model, make_run
from leaderboard.testing.submission_fields import CANARY, form_fields, least_fields

pytestmark = pytest.mark.django_db
ADDRESS = "/api/v1/submissions"


@pytest.fixture
def secret() -> str:
    return ApiToken.objects.issue("Fine Lab", "ada@fine.example")[1]


def fields(suite, **changes: object) -> dict[str, object]:
    """The required fields of a submission, with the suite as the API names it."""
    return least_fields(suite.key, **changes)


def post(client: Client, path: str, body: object = None, secret: str = ""):
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    data = "" if body is None else json.dumps(body)
    return client.post(f"{ADDRESS}{path}", data, content_type="application/json", headers=headers)


def test_a_model_is_submitted_tested_reviewed_played_and_withdrawn(
    client,
    suite,
    server,
    local,
    valkey,
    secret,
):
    """A script submits a model and follows it to the end."""
    answer = post(client, "", fields(suite, endpoint_url=server, price_per_edit=0.04), secret)
    assert answer.status_code == 201
    sent = answer.json()
    assert (sent["state"], sent["probe"]["done"], sent["ended"]) == ("probing", False, False)
    assert sent["estimate"] == {
        "edits": suite.core.edits,
        "usd": pytest.approx(0.04 * suite.core.edits),
        "hours": pytest.approx(suite.core.edits * 10 / 4 / 3600, abs=0.01),
    }

    # From here the submission's own token is enough.
    where = f"{ADDRESS}/{sent['token']}"
    submission = Submission.objects.get()
    assert (submission.api_token.holder, submission.email) == ("Fine Lab", "ada@fine.example")
    jobs.probe(submission.pk)
    tested = client.get(where).json()
    assert (tested["state"], tested["probe"]["passed"]) == ("review", True)
    assert {step["state"] for step in tested["probe"]["steps"]} <= {"passed", "warning"}
    assert tested["reviews_before"] == 0
    assert tested["run"] is None

    submission.refresh_from_db()
    run = workflow.approve(submission, suite=suite, budget_calls=None, budget_usd=None, by=None)
    playing = client.get(where).json()
    assert (playing["state"], playing["run"]["state"]) == ("approved", "queued")
    assert playing["run"]["position"] == 1
    assert playing["run"]["edits"] == {"done": 0, "total": run.progress.edits_total}
    assert "played, trip by trip" in playing["run"]["next"]

    withdrawn = post(client, f"/{sent['token']}/withdraw")
    assert withdrawn.json()["state"] == "withdrawn"
    over = client.get(where).json()
    assert (over["ended"], over["run"]["state"]) == (True, "cancelled")
    assert post(client, f"/{sent['token']}/withdraw").status_code == 409


@pytest.mark.parametrize(
    "header", [{}, {"Authorization": "Bearer cbt_guess"}, {"Authorization": "x"}]
)
def test_without_a_valid_token_nothing_is_submitted_or_listed(client, suite, header):
    body = json.dumps(fields(suite))
    sent = client.post(ADDRESS, body, content_type="application/json", headers=header)
    assert sent.status_code == 401
    assert client.get(ADDRESS, headers=header).status_code == 401
    assert not Submission.objects.exists()


def test_a_revoked_or_expired_token_is_refused(client, suite, secret):
    ApiToken.objects.update(revoked_at=timezone.now())
    assert post(client, "", fields(suite), secret).status_code == 401
    ApiToken.objects.update(revoked_at=None, expires_at=timezone.now() - timedelta(seconds=1))
    assert post(client, "", fields(suite), secret).status_code == 401


def test_guessing_tokens_is_rate_limited(client):
    for number in range(60):
        assert client.get(ADDRESS, headers={"Authorization": f"Bearer {number}"}).status_code == 401
    answer = client.get(ADDRESS, headers={"Authorization": "Bearer once-more"})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0


def test_the_database_stores_no_usable_token(secret):
    row = ApiToken.objects.values().get()
    assert secret not in str(row)
    assert ApiToken.objects.with_secret(row["digest"]) is None
    assert ApiToken.objects.with_secret(secret).last_used_at is None
    assert ApiToken.objects.get().last_used_at is not None


def test_the_api_has_the_fields_of_the_form():
    assert set(SubmissionIn.model_fields) == set(SubmissionForm.base_fields) - set(LEFT_OUT)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"endpoint_url": "https://169.254.169.254/"}, "endpoint_url"),
        ({"endpoint_url": "https://localhost/"}, "endpoint_url"),
        ({"name": "\u202e"}, "name"),
        ({"name": ""}, "name"),
        ({"suite": "nonsense"}, "suite"),
        ({"contract": "soap"}, "contract"),
        ({"email": "not an address"}, "email"),
        ({"extra": {"api_key": "x"}}, "extra"),
        ({"extra": "text"}, "extra"),
        ({"api_key": "a b"}, "api_key"),
        ({"max_in_flight": 0}, "max_in_flight"),
        ({"price_per_edit": -1}, "price_per_edit"),
        ({"paper_url": "javascript:alert(1)"}, "paper_url"),
        ({"idempotency_key": "not a UUID"}, "idempotency_key"),
    ],
)
def test_invalid_fields_are_refused_and_named(
    client,
    suite,
    secret,
    changes,
    field,
):
    answer = post(client, "", fields(suite) | changes, secret)
    assert answer.status_code == 422
    assert field in [error["loc"][-1] for error in answer.json()["detail"]]
    assert CANARY not in answer.content.decode()
    assert not Submission.objects.exists()


def test_a_blocked_address_is_a_security_event_here_too(client, suite, secret):
    post(client, "", fields(suite, endpoint_url="https://169.254.169.254/latest"), secret)
    assert SecurityEvent.objects.filter(kind="address").exists()


def test_page_and_api_share_a_quota(client, suite, secret, settings, valkey):
    settings.SUBMISSIONS_PER_DAY = 1
    assert post(client, "", fields(suite), secret).status_code == 201
    answer = post(client, "", fields(suite, name="Another one"), secret)
    assert answer.status_code == 429
    assert "the limit of 1 " in answer.json()["detail"]
    assert Submission.objects.count() == 1


def test_page_and_api_share_a_rate_limit(client, suite, secret):
    for _ in range(20):
        client.post(reverse("submit"), {})
    answer = post(client, "", fields(suite), secret)
    assert (answer.status_code, Submission.objects.count()) == (429, 0)
    assert int(answer.headers["Retry-After"]) > 0


def test_a_repeated_idempotency_key_makes_no_second_submission_even_at_the_quota(
    client,
    suite,
    secret,
    settings,
    valkey,
):
    settings.SUBMISSIONS_PER_DAY = 1
    body = fields(suite, idempotency_key=str(uuid.uuid4()))
    first, again = (post(client, "", body, secret) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["token"] == again.json()["token"]
    assert Submission.objects.count() == 1


def test_another_senders_idempotency_key_reveals_nothing(client, suite, secret, valkey):
    """Even if two senders choose the same key, neither gets the other's submission."""
    body = fields(suite, idempotency_key=str(uuid.UUID(int=0)))
    mine = post(client, "", body, secret).json()["token"]
    _, other = ApiToken.objects.issue("Other Lab", "bob@other.example")
    theirs = post(client, "", body | {"name": "Other Editor"}, other).json()["token"]
    assert mine != theirs
    page = client.post(reverse("submit"), {"idempotency_key": str(uuid.UUID(int=0))})
    assert page.status_code == 422


def test_each_sender_lists_only_their_own(client, suite, secret, valkey):
    token = post(client, "", fields(suite), secret).json()["token"]
    _, other = ApiToken.objects.issue("Other Lab", "bob@other.example")
    mine, theirs = (
        client.get(ADDRESS, headers={"Authorization": f"Bearer {who}"}).json()
        for who in (secret, other)
    )
    assert [row["token"] for row in mine["items"]] == [token]
    assert theirs == {"items": [], "count": 0}


def test_a_list_of_runs_and_suites_takes_few_queries(
    client, suite, secret, django_assert_max_num_queries
):
    header = {"Authorization": f"Bearer {secret}"}
    client.get(ADDRESS, headers=header)  # notes down when the token was last used
    for number in range(1, 4):
        model = make_model(f"Fine Editor {number}")
        make_run(model, suite)
        Submission.objects.create(
            name=model.name,
            suite=suite,
            state=Submission.State.APPROVED,
            editing_model=model,
            api_token=ApiToken.objects.get(),
        )
        # Two for each: the estimate counts the chains, and looks for the model's own pace; one
        # for the audits of a suite that this process has not met.
        with django_assert_max_num_queries(6 + 2 * number):
            rows = client.get(ADDRESS, headers=header).json()["items"]
        assert [row["run"]["state"] for row in rows] == ["finished"] * number
        assert rows == [client.get(f"{ADDRESS}/{row['token']}").json() for row in rows]


def test_a_submission_made_on_the_page_can_be_followed_in_the_api(client, suite, valkey):
    client.post(reverse("submit"), form_fields(suite))
    submission = Submission.objects.get()
    answer = client.get(f"{ADDRESS}/{submission.token}")
    assert answer.json()["page"].endswith(submission.get_absolute_url())
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert client.get(f"{ADDRESS}/{'x' * 32}").status_code == 404


def test_a_test_can_be_repeated_a_question_answered_and_a_key_replaced(
    client,
    suite,
    secret,
    valkey,
):
    token = post(client, "", fields(suite), secret).json()["token"]
    submission = Submission.objects.get()
    workflow.move(submission, Submission.State.PROBE_FAILED)
    assert post(client, f"/{token}/test").json()["state"] == "probing"
    workflow.move(submission, Submission.State.REVIEW)
    workflow.move(submission, Submission.State.ASKED, message="Which licence?")
    assert client.get(f"{ADDRESS}/{token}").json()["message"] == "Which licence?"
    assert post(client, f"/{token}/reply", {"reply": "\u200b"}).status_code == 409
    assert post(client, f"/{token}/reply", {"reply": "MIT"}).json()["state"] == "review"
    assert post(client, f"/{token}/key", {"api_key": "a b"}).status_code == 409
    assert post(client, f"/{token}/key", {"api_key": "sk-new"}).status_code == 200
    submission.refresh_from_db()
    assert (submission.reply, submission.api_key.reveal()) == ("MIT", "sk-new")


def test_no_response_contains_the_endpoints_key(client, suite, secret, valkey, capfd, caplog):
    sent = post(client, "", fields(suite), secret)
    token = sent.json()["token"]
    listed = client.get(ADDRESS, headers={"Authorization": f"Bearer {secret}"})
    seen = [a.content.decode() for a in (sent, listed, client.get(f"{ADDRESS}/{token}"))]
    seen += [post(client, f"/{token}/key", {"api_key": CANARY}).content.decode()]
    seen += [post(client, "", {"api_key": CANARY}, secret).content.decode()]
    seen += [post(client, "", fields(suite, api_key=[CANARY]), secret).content.decode()]
    seen += [*capfd.readouterr(), caplog.text]
    assert CANARY not in "".join(seen)


def test_the_status_of_a_run_reports_its_progress(client, suite):
    model = EditingModel.objects.create(slug="a", name="A", editor="oracle")
    run = Run.objects.create(
        editing_model=model,
        suite=suite,
        state=RunState.PAUSED,
        reason_text="Rate limited.",
        edits_total=8,
        edits_done=3,
        published=True,
    )
    answer = client.get(f"/api/v1/runs/{run.pk}/status").json()
    assert answer["edits"] == {"done": 3, "total": 8}
    assert (answer["state"], answer["reason"], answer["ended"]) == (
        "paused",
        "Rate limited.",
        False,
    )
    Run.objects.update(published=False)
    assert client.get(f"/api/v1/runs/{run.pk}/status").status_code == 404


def test_an_admin_issues_a_token_that_is_shown_once_and_can_be_revoked(client, suite, valkey):
    client.force_login(User.objects.create_superuser("owner"))
    page = client.post(
        reverse("admin:leaderboard_apitoken_add"), {"holder": "Fine Lab", "email": "a@b.example"}
    )
    secret = page.context["secret"]
    assert secret in page.content.decode()
    assert "no-store" in page.headers["Cache-Control"]
    token = ApiToken.objects.get()
    assert token.issued_by.username == "owner"
    for name, args in (("change", [token.pk]), ("changelist", []), ("history", [token.pk])):
        other = client.get(reverse(f"admin:leaderboard_apitoken_{name}", args=args))
        assert other.status_code == 200
        assert secret not in other.content.decode()
    assert post(Client(), "", fields(suite), secret).status_code == 201
    client.post(
        reverse("admin:leaderboard_apitoken_changelist"),
        {"action": "revoke", "_selected_action": [token.pk]},
    )
    assert post(Client(), "", fields(suite, name="One more"), secret).status_code == 401


def test_a_token_is_issued_from_the_shell(capsys):
    call_command("issue_token", "Fine Lab", "ada@fine.example")
    assert ApiToken.objects.with_secret(capsys.readouterr().out.strip()).holder == "Fine Lab"
    with pytest.raises(CommandError, match="not an e-mail address"):
        call_command("issue_token", "Fine Lab", "nonsense")


def test_the_documentation_explains_how_to_submit(client):
    text = client.get("/api/v1/openapi.json").json()
    assert "Authorization: Bearer" in text["info"]["description"]
    assert text["paths"]["/api/v1/submissions"]["post"]["security"]
    page = client.get("/api/v1/docs").content.decode()
    assert "cdn" not in page
    assert "openapi.json" in page
