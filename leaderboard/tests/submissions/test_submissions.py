"""Submitting an endpoint: the form, the test, and what must not happen."""

from __future__ import annotations

import threading

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from leaderboard import endpoints, jobs
from leaderboard.models import EditingModel, SecurityEvent, Submission
from leaderboard.submissions import workflow
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


def test_this_server_cannot_be_submitted_as_an_endpoint(client, suite, settings):
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
def test_an_invalid_field_is_named(client, suite, changes, field):
    assert f'id="error-{field}"' in errors(client, suite, **changes)


@pytest.mark.parametrize("size", ["big", "1024*1024", "0x0"])
def test_only_offered_sizes_are_accepted(client, suite, size):
    assert 'id="error-size"' in errors(client, suite, size=size)


def test_a_filled_honeypot_is_refused(client, suite):
    assert "website" in errors(client, suite, website="https://spam.example")


@pytest.mark.parametrize("name", ["Nano Banana", "nano-banana", "NANO  BANANA!", "Nаno Bаnаnа"])
def test_a_name_may_not_imitate_a_known_model(client, suite, name):
    EditingModel.objects.create(slug="nano", name="Nano Banana", editor="gemini")
    assert "is already on this site" in errors(client, suite, name=name)


def test_lookalike_letters_have_one_skeleton():
    assert skeleton("FLUΧ.2") == skeleton("flux 2") == "flux2"


def test_a_hostile_name_is_stored_clean_and_shown_escaped(client, suite, valkey):
    name = "<script>alert(1)</script>\u202e =HYPERLINK(1)"
    answer = client.post(reverse("submit"), form_fields(suite, name=name), follow=True)
    assert Submission.objects.get().name == "<script>alert(1)</script> =HYPERLINK(1)"
    assert "<script>alert(1)" not in answer.content.decode()
    assert "&lt;script&gt;alert(1)" in answer.content.decode()


@pytest.mark.both_databases
def test_the_same_form_sent_twice_is_one_submission(client, suite, valkey):
    data = form_fields(suite)
    first = client.post(reverse("submit"), data)
    second = client.post(reverse("submit"), data)
    assert first.url == second.url
    assert Submission.objects.count() == 1


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_the_same_form_sent_five_times_at_once_is_one_submission_and_counts_once(
    suite, valkey, settings
):
    settings.SUBMISSIONS_PER_DAY = 1
    fields, ready, pages = form_fields(suite), threading.Barrier(5), []

    def click() -> None:
        ready.wait()
        pages.append(Client().post(reverse("submit"), fields).get("Location"))
        connection.close()

    threads = [threading.Thread(target=click) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pages == [Submission.objects.get().get_absolute_url()] * 5


@pytest.mark.both_databases
def test_a_submission_without_valkey_is_stored_and_enqueued_later(client, suite, valkey, settings):
    import django_rq

    valkey.kill()
    answer = client.post(reverse("submit"), form_fields(suite), follow=True)
    assert answer.status_code == 200
    assert "Waiting for a worker" in answer.content.decode()
    valkey.start()
    settings.LEASE_SECONDS = 0
    from leaderboard import job_queue

    job_queue._retry_at = 0
    jobs.sweep()
    from django.db import connection

    for _, callback, _ in connection.run_on_commit:
        callback()
    assert any(job.startswith("probe-") for job in django_rq.get_queue("probes").get_job_ids())


@pytest.mark.both_databases
def test_a_quota_is_refused_with_its_numbers(client, suite, settings, valkey):
    settings.SUBMISSIONS_PER_DAY = 1
    client.post(reverse("submit"), form_fields(suite))
    answer = client.post(
        reverse("submit"), form_fields(suite, name="Another one", email="ADA@example.org")
    )
    assert answer.status_code == 422
    assert "the limit of 1 " in answer.content.decode()
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


def test_the_curl_line_follows_the_form_and_never_contains_the_key(client, suite):
    data = form_fields(suite, model_id="my-model", extra='{"steps": 30}', contract="cog")
    text = client.post(reverse("submit_preview"), data).content.decode()
    assert CANARY not in text
    data["contract"] = "openai-edits"
    text = client.post(reverse("submit_preview"), data).content.decode()
    assert "curl" in text
    assert "my-model" in text
    assert "steps" in text
    assert "$API_KEY" in text
    assert f"{suite.size}x{suite.size}" in text  # not of some other suite


@pytest.mark.parametrize("contract", ["openai-edits", "openai-generations", "huggingface", "cog"])
def test_the_example_server_passes_the_test_in_every_contract(
    client, suite, server, local, valkey, contract
):
    client.post(reverse("submit"), form_fields(suite, endpoint_url=server, contract=contract))
    submission = Submission.objects.get()
    jobs.probe(submission.pk)
    submission.refresh_from_db()
    assert submission.state == State.REVIEW, submission.probe
    assert "Edit is visible" in client.get(submission.get_absolute_url()).content.decode()


def test_a_failed_test_gives_advice_and_can_be_repeated(client, suite, local, valkey):
    client.post(reverse("submit"), form_fields(suite, endpoint_url="http://127.0.0.1:9/v1"))
    submission = Submission.objects.get()
    submission.options |= {"timeout": 2}
    submission.save()
    jobs.probe(submission.pk)
    submission.refresh_from_db()
    assert submission.state == State.PROBE_FAILED
    page = client.get(submission.get_absolute_url()).content.decode()
    assert "Start the server" in page
    assert '<span class="tag bad" id="state-label">' in page
    assert "curl" in page
    assert CANARY not in page
    client.post(reverse("submission_act", args=[submission.token]), {"act": "test"})
    submission.refresh_from_db()
    assert submission.state == State.PROBING
    assert submission.probe == {}


def test_a_wrong_address_is_corrected_on_the_submissions_own_page(
    client, suite, server, local, valkey
):
    client.post(reverse("submit"), form_fields(suite, endpoint_url="http://127.0.0.1:9/v1"))
    submission = Submission.objects.get()
    Submission.objects.update(state=State.PROBE_FAILED)
    act = reverse("submission_act", args=[submission.token])
    sent = {"act": "correct", "contract": "openai-edits", "size": "omit", "send_seed": "on"}
    answer = client.post(act, sent | {"endpoint_url": "ftp://example.org"})
    assert answer.status_code == 422
    assert 'id="error-endpoint_url"' in answer.content.decode()
    submission.refresh_from_db()
    assert submission.endpoint_url == "http://127.0.0.1:9/v1"
    client.post(act, sent | {"endpoint_url": server})
    submission.refresh_from_db()
    assert (submission.state, submission.endpoint_url) == (State.PROBING, server)
    assert submission.options == {
        "extra": {},
        "send_seed": True,
        "send_response_format": False,
        "size": "omit",
    }
    assert submission.api_key.reveal() == CANARY
    jobs.probe(submission.pk)
    submission.refresh_from_db()
    assert submission.state == State.REVIEW
    # What is being evaluated already is not changed under the evaluation.
    Submission.objects.update(state=State.APPROVED)
    client.post(act, sent | {"endpoint_url": f"{server}/other"})
    submission.refresh_from_db()
    assert (submission.state, submission.endpoint_url) == (State.APPROVED, server)


@pytest.mark.both_databases
@pytest.mark.parametrize("decided", [State.REJECTED, State.WITHDRAWN, State.APPROVED])
def test_a_decision_made_during_an_address_lookup_stays(
    client, suite, server, local, valkey, monkeypatch, decided
):
    """The owner of a host name controls how long its lookup takes, so a decision may come first."""
    client.post(reverse("submit"), form_fields(suite, endpoint_url=server))
    submission = Submission.objects.get()
    Submission.objects.update(state=State.REVIEW)
    check = endpoints.check_address

    def slow(url: str) -> str:
        Submission.objects.update(state=decided)
        return check(url)

    monkeypatch.setattr(endpoints, "check_address", slow)
    sent = {"act": "correct", "contract": "cog", "size": "omit", "endpoint_url": f"{server}/other"}
    client.post(reverse("submission_act", args=[submission.token]), sent)
    submission.refresh_from_db()
    assert (submission.state, submission.endpoint_url) == (decided, server)


def test_a_closed_submission_stores_no_key_and_makes_no_link(client, suite, server, local, valkey):
    client.post(reverse("submit"), form_fields(suite, endpoint_url=server))
    stale = Submission.objects.get()
    workflow.withdraw(Submission.objects.get())
    with pytest.raises(workflow.NotPossible):
        workflow.set_key(stale, "sk-later")
    assert not Submission.objects.get().api_key.reveal()
    stale.state = State.APPROVED
    with pytest.raises(workflow.NotPossible):
        workflow.share(stale)


def test_each_suite_on_the_form_states_its_number_of_edits(client, suite):
    edits = suite.cases.count() * suite.repeats * suite.trips * 2
    assert f"{suite}: {edits} edits" in client.get(reverse("submit")).content.decode()
