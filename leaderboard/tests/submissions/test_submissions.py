"""Somebody has a model behind a URL: the form, the test, the review, and what must not happen."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.urls import reverse

from evaluation import jobs
from leaderboard.models import EditingModel, Run, SecurityEvent, Submission
from leaderboard.models.runs import RunState
from leaderboard.submissions import actions, workflow
from leaderboard.testing.submission_fields import CANARY, form_fields
from leaderboard.text import skeleton

pytestmark = pytest.mark.django_db
State = Submission.State


def errors(client, on, **changes: object) -> str:
    answer = client.post(reverse("submit"), form_fields(on) | changes)
    assert answer.status_code == 422
    assert not Submission.objects.exists()
    return answer.content.decode()


@pytest.mark.parametrize(
    "address",
    [
        *(
            "https://169.254.169.254/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://127.1/",
        ),
        *(
            "https://017700000001/",
            "https://127.000.000.001/",
            "https://localhost/",
            "https://[::]/",
        ),
        *("https://a.localhost/", "https://0.0.0.0/", "https://10.0.0.1/", "https://192.168.1.1/"),
        *("https://172.16.0.1/", "https://100.64.0.1/", "https://[fc00::1]/", "https://[fe80::1]/"),
        *("https://[::ffff:127.0.0.1]/", "https://192.0.0.192/", "https://100.100.100.200/"),
        *("http://93.184.216.34/", "file:///etc/passwd", "gopher://x/", "javascript:alert(1)"),
        *(
            "https://user:pw@93.184.216.34/",
            "https://93.184.216.34:6379/",
            "https://93.184.216.34:22/",
        ),
        *(
            "https://good.com\\@evil/",
            "https://a\r\nb/",
            "https://" + "a" * 70 + ".org/",
            "nonsense",
        ),
        "https://x.org/" + "a" * 10_000,
    ],
)
def test_an_address_that_is_not_public_is_refused_and_nothing_is_queued(client, suite, address):
    assert 'id="error-endpoint_url"' in errors(client, suite, endpoint_url=address)


def test_our_own_server_cannot_be_benchmarked(client, suite, settings):
    settings.ALLOWED_HOSTS = ["bench.example", "testserver"]
    assert "error-endpoint_url" in errors(client, suite, endpoint_url="https://bench.example/v1")


def test_a_blocked_address_is_a_security_event(client, suite):
    errors(client, suite, endpoint_url="https://169.254.169.254/latest")
    assert SecurityEvent.objects.filter(kind="address").exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "\u202e\u200b"}, "name"),
        ({"name": "x" * 500}, "name"),
        ({"email": "not an address"}, "email"),
        ({"extra": "{not json"}, "extra"),
        ({"extra": "[1]"}, "extra"),
        ({"extra": '{"api_key": "x"}'}, "extra"),
        ({"extra": '{"a": NaN}'}, "extra"),
        ({"extra": "[" * 3000}, "extra"),
        ({"api_key": "a b"}, "api_key"),
        ({"api_key": "a\nb"}, "api_key"),
        ({"max_in_flight": "0"}, "max_in_flight"),
        ({"price_per_edit": "-1"}, "price_per_edit"),
        ({"contract": "soap"}, "contract"),
        ({"suite": "999"}, "suite"),
        ({"paper_url": "javascript:alert(1)"}, "paper_url"),
    ],
)
def test_a_bad_field_is_named(client, suite, changes, field):
    assert f'id="error-{field}"' in errors(client, suite, **changes)


@pytest.mark.parametrize("size", ["big", "1024*1024", "0x0"])
def test_a_size_that_makes_no_request_is_refused(client, suite, size):
    assert "1024x1024" in errors(client, suite, size=size)


def test_a_filled_honeypot_is_refused(client, suite):
    assert "website" in errors(client, suite, website="https://spam.example")


@pytest.mark.parametrize("name", ["Nano Banana", "nano-banana", "NANO  BANANA!", "Nаno Bаnаnа"])
def test_a_name_may_not_imitate_a_known_model(client, suite, name):
    EditingModel.objects.create(slug="nano", name="Nano Banana", editor="gemini")
    assert "on the site already" in errors(client, suite, name=name)


def test_lookalike_letters_have_one_skeleton():
    assert skeleton("FLUΧ.2") == skeleton("flux 2") == "flux2"


def test_a_hostile_name_is_stored_clean_and_shown_escaped(client, suite, valkey):
    name = "<script>alert(1)</script>\u202e =HYPERLINK(1)"
    answer = client.post(reverse("submit"), form_fields(suite, name=name), follow=True)
    assert Submission.objects.get().name == "<script>alert(1)</script> =HYPERLINK(1)"
    assert "<script>alert(1)" not in answer.content.decode()
    assert "&lt;script&gt;alert(1)" in answer.content.decode()


def test_the_same_form_sent_twice_is_one_submission(client, suite, valkey):
    data = form_fields(suite)
    first = client.post(reverse("submit"), data)
    second = client.post(reverse("submit"), data)
    assert first.url == second.url
    assert Submission.objects.count() == 1


def test_valkey_down_at_submission_saves_the_row_and_the_sweeper_rings_later(
    client, suite, valkey, settings
):
    import django_rq

    valkey.kill()
    answer = client.post(reverse("submit"), form_fields(suite), follow=True)
    assert answer.status_code == 200
    assert "Waiting for a worker" in answer.content.decode()
    valkey.start()
    settings.LEASE_SECONDS = 0
    from leaderboard import queue

    queue._silent_until = 0
    jobs.sweep()
    from django.db import connection

    for _, callback, _ in connection.run_on_commit:
        callback()
    assert any(job.startswith("probe-") for job in django_rq.get_queue("probes").get_job_ids())


def test_a_quota_is_refused_with_its_numbers(client, suite, settings, valkey):
    settings.SUBMISSIONS_PER_DAY = 1
    client.post(reverse("submit"), form_fields(suite))
    answer = client.post(
        reverse("submit"), form_fields(suite, name="Another one", email="ADA@example.org")
    )
    assert answer.status_code == 422
    assert "the limit is 1" in answer.content.decode()
    assert Submission.objects.count() == 1


def test_a_flood_gets_429_with_retry_after_and_no_row(client, suite):
    for _ in range(20):
        client.post(reverse("submit"), {})
    answer = client.post(reverse("submit"), form_fields(suite))
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0
    assert not Submission.objects.exists()


def test_without_a_csrf_token_nothing_happens(suite):
    from django.test import Client

    strict = Client(enforce_csrf_checks=True)
    assert strict.post(reverse("submit"), form_fields(suite)).status_code == 403
    assert not Submission.objects.exists()


def test_get_changes_nothing_and_a_foreign_token_is_not_found(client, suite, valkey):
    client.post(reverse("submit"), form_fields(suite))
    submission = Submission.objects.get()
    assert client.get(reverse("submission_act", args=[submission.token])).status_code == 405
    assert client.get(reverse("submission", args=["x" * 32])).status_code == 404
    assert len(submission.token) >= 32


def test_the_curl_line_follows_the_form_and_never_holds_the_key(client, suite):
    data = form_fields(suite, model_id="my-model", extra='{"steps": 30}', contract="cog")
    text = client.post(reverse("submit_preview"), data).content.decode()
    assert CANARY not in text
    data["contract"] = "openai-edits"
    text = client.post(reverse("submit_preview"), data).content.decode()
    assert "curl" in text
    assert "my-model" in text
    assert "steps" in text
    assert "$API_KEY" in text


@pytest.mark.parametrize("contract", ["openai-edits", "openai-generations", "huggingface", "cog"])
def test_the_example_server_passes_the_test_in_every_contract(
    client, suite, server, local, valkey, contract
):
    client.post(reverse("submit"), form_fields(suite, endpoint_url=server, contract=contract))
    submission = Submission.objects.get()
    jobs.probe(submission.pk)
    submission.refresh_from_db()
    assert submission.state == State.REVIEW, submission.probe
    assert "The edit can be seen" in client.get(submission.get_absolute_url()).content.decode()


def test_a_failing_endpoint_says_what_to_do_and_can_be_tested_again(client, suite, local, valkey):
    client.post(reverse("submit"), form_fields(suite, endpoint_url="http://127.0.0.1:9/v1"))
    submission = Submission.objects.get()
    submission.options |= {"timeout": 2}
    submission.save()
    jobs.probe(submission.pk)
    submission.refresh_from_db()
    assert submission.state == State.PROBE_FAILED
    page = client.get(submission.get_absolute_url()).content.decode()
    assert "Start the server" in page
    client.post(reverse("submission_act", args=[submission.token]), {"act": "test"})
    submission.refresh_from_db()
    assert submission.state == State.PROBING
    assert submission.probe == {}


@pytest.fixture
def reviewed(client, suite, server, local, valkey):
    client.post(reverse("submit"), form_fields(suite, endpoint_url=server))
    submission = Submission.objects.get()
    jobs.probe(submission.pk)
    submission.refresh_from_db()
    return submission


@pytest.fixture
def owner(client):
    user = User.objects.create_superuser("owner")
    client.force_login(user)
    return client


def decide(client, submission, decision: str, **values: object):
    page = reverse("admin:leaderboard_submission_review", args=[submission.pk])
    data = {"decision": decision, "suite": submission.suite_id, "message": "", **values}
    return client.post(page, data, follow=True)


def test_an_admin_approves_with_a_budget_and_the_run_has_the_key(owner, reviewed):
    decide(owner, reviewed, "approve", budget_calls=50, budget_usd="1.5")
    reviewed.refresh_from_db()
    run = Run.objects.get()
    assert reviewed.state == State.APPROVED
    assert (run.state, run.budget_calls, float(run.budget_usd)) == (RunState.QUEUED, 50, 1.5)
    assert run.editing_model.api_key.reveal() == CANARY
    assert "being evaluated" in owner.get(reviewed.get_absolute_url()).content.decode()


def test_a_question_is_asked_and_answered(owner, reviewed):
    assert "Say what the question is" in decide(owner, reviewed, "ask").content.decode()
    decide(owner, reviewed, "ask", message="Which licence?")
    page = owner.get(reviewed.get_absolute_url()).content.decode()
    assert "Which licence?" in page
    owner.post(reverse("submission_act", args=[reviewed.token]), {"act": "reply", "reply": "MIT"})
    reviewed.refresh_from_db()
    assert (reviewed.state, reviewed.reply) == (State.REVIEW, "MIT")


def test_a_rejection_gives_its_reason_and_ends_it(owner, reviewed):
    decide(owner, reviewed, "reject", message="A copy of another model.")
    assert "A copy of another model." in owner.get(reviewed.get_absolute_url()).content.decode()
    with pytest.raises(workflow.NotPossible):
        actions.test_again(reviewed)


def test_withdrawing_cancels_the_run_and_forgets_the_key(owner, reviewed):
    decide(owner, reviewed, "approve")
    owner.post(reverse("submission_act", args=[reviewed.token]), {"act": "withdraw"})
    reviewed.refresh_from_db()
    assert reviewed.state == State.WITHDRAWN
    assert not reviewed.api_key
    model = reviewed.editing_model
    assert not model.api_key
    assert model.status == EditingModel.Status.HIDDEN
    assert Run.objects.get().state == RunState.CANCELLED


def test_a_new_key_lets_a_run_that_waits_for_it_go_on(owner, reviewed):
    decide(owner, reviewed, "approve")
    run = Run.objects.get()
    jobs.pause(run, "key_rejected", "The endpoint rejected the key")
    assert "Set a new one and" in owner.get(reviewed.get_absolute_url()).content.decode()
    owner.post(
        reverse("submission_act", args=[reviewed.token]), {"act": "key", "api_key": "sk-new"}
    )
    run.refresh_from_db()
    assert run.state == RunState.QUEUED
    assert EditingModel.objects.get().api_key.reveal() == "sk-new"


def test_the_key_is_in_no_page_log_job_history_or_admin(owner, reviewed, capfd, caplog):
    import django_rq

    decide(owner, reviewed, "approve")
    seen = []
    for address in (
        reviewed.get_absolute_url(),
        reverse("submission_state", args=[reviewed.token]),
        reverse("admin:leaderboard_submission_change", args=[reviewed.pk]),
        reverse("admin:leaderboard_submission_changelist"),
        reverse("admin:leaderboard_submission_history", args=[reviewed.pk]),
        reverse("admin:leaderboard_editingmodel_change", args=[EditingModel.objects.get().pk]),
        reverse("admin:leaderboard_run_change", args=[Run.objects.get().pk]),
        "/api/v1/models",
        "/api/v1/runs",
    ):
        answer = owner.get(address)
        assert answer.status_code == 200, address
        seen.append(answer.content.decode())
    for name in ("edits", "probes", "gpu"):
        queue = django_rq.get_queue(name)
        seen += [str(queue.connection.hgetall(key)) for key in queue.connection.keys("rq:job:*")]
    out, err = capfd.readouterr()
    seen += [out, err, caplog.text, str(list(Submission.history.values())), str(vars(reviewed))]
    assert CANARY not in "".join(seen)


@pytest.mark.django_db(transaction=True)
def test_mails_say_what_happens_next(client, suite, server, settings, valkey):
    settings.ALLOW_LOCAL_ENDPOINTS = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    client.post(reverse("submit"), form_fields(suite, endpoint_url=server))
    jobs.probe(Submission.objects.get().pk)
    subjects = [message.subject for message in mail.outbox]
    assert subjects == [
        "ConvergeBench: Fine Editor 2: Testing the endpoint",
        "ConvergeBench: Fine Editor 2: Waiting for review",
    ]
    assert all(CANARY not in message.body for message in mail.outbox)


@pytest.mark.django_db(transaction=True)
def test_a_test_made_again_is_told_only_when_it_ends_otherwise(
    client, suite, server, settings, valkey
):
    settings.ALLOW_LOCAL_ENDPOINTS = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    client.post(reverse("submit"), form_fields(suite, endpoint_url=server))
    submission = Submission.objects.get()
    jobs.probe(submission.pk)
    told = len(mail.outbox)

    for _ in range(2):
        actions.test_again(Submission.objects.get())
        jobs.probe(submission.pk)
    assert Submission.objects.get().state == State.REVIEW
    assert len(mail.outbox) == told

    Submission.objects.update(endpoint_url="http://127.0.0.1:9/v1")
    actions.test_again(Submission.objects.get())
    jobs.probe(submission.pk)
    assert [message.subject for message in mail.outbox[told:]] == [
        "ConvergeBench: Fine Editor 2: The test failed"
    ]


def test_an_admin_has_endpoints_tested_again(owner, reviewed):
    rejected = Submission.objects.create(
        name="Over", email="a@example.org", suite=reviewed.suite, state=State.REJECTED
    )
    answer = owner.post(
        reverse("admin:leaderboard_submission_changelist"),
        {"action": "test_again", "_selected_action": [reviewed.pk, rejected.pk]},
        follow=True,
    ).content.decode()
    assert "Fine Editor 2 is being tested again" in answer
    assert "Over: This cannot be done" in answer
    assert set(Submission.objects.values_list("state", flat=True)) == {
        State.PROBING,
        State.REJECTED,
    }


def test_each_suite_on_the_form_says_how_many_edits_it_takes(client, suite):
    edits = suite.cases.count() * suite.repeats * suite.trips * 2
    assert f"{suite}: {edits} edits" in client.get(reverse("submit")).content.decode()
