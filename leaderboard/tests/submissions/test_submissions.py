"""Somebody has a model behind a URL: the form, the test, the review, and what must not happen."""

from __future__ import annotations

import html
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.urls import reverse
from django.utils import timezone

from evaluation import jobs
from leaderboard.models import EditingModel, Run, SecurityEvent, Submission, Trip
from leaderboard.models.runs import RunState
from leaderboard.submissions import actions, workflow
from leaderboard.testing.factories import tiny_suite
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
def test_a_size_is_one_of_a_few(client, suite, size):
    assert 'id="error-size"' in errors(client, suite, size=size)


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
    act = reverse("submission_act", args=[reviewed.token])
    owner.post(act, {"act": "withdraw"})
    reviewed.refresh_from_db()
    assert reviewed.state == State.APPROVED  # nobody said that they were sure
    owner.post(act, {"act": "withdraw", "sure": "on"})
    reviewed.refresh_from_db()
    assert reviewed.state == State.WITHDRAWN
    assert not reviewed.api_key
    model = reviewed.editing_model
    assert not model.api_key
    assert model.status == EditingModel.Status.HIDDEN
    assert Run.objects.get().state == RunState.CANCELLED


def test_the_pictures_of_the_test_are_shown_to_whoever_has_the_link_and_to_reviewers(
    client, reviewed
):
    own = [picture for _, picture in reviewed.probe_pictures]
    assert len(own) == 3
    state = client.get(reverse("submission_state", args=[reviewed.token])).json()
    assert [shown["label"] for shown in state["pictures"]] == [
        *("What we sent", "After the edit", "What came back")
    ]
    for shown in state["pictures"]:
        answer = client.get(shown["src"])
        assert (answer.status_code, answer["Content-Type"]) == (200, "image/webp")
        assert "private" in answer["Cache-Control"]
    stranger = reverse("submission_picture", args=["x" * 32, "thumbnail", own[1].pk])
    assert client.get(stranger).status_code == 404
    assert client.get(own[1].thumbnail_url).status_code == 404
    client.force_login(User.objects.create_superuser("owner"))
    page = client.get(reverse("admin:leaderboard_submission_review", args=[reviewed.pk]))
    assert all(picture.thumbnail_url in page.content.decode() for picture in own)


@pytest.fixture
def finished(owner, reviewed, quick_metrics):
    """Evaluated, and not public yet."""
    decide(owner, reviewed, "approve")
    run = Run.objects.get()
    jobs.play(run.pk)
    jobs.score(run.pk)
    run.refresh_from_db()
    reviewed.refresh_from_db()
    owner.logout()
    return run


def test_the_result_is_seen_first_by_the_submitter_then_under_embargo_then_by_all(
    client, reviewed, finished
):
    page, act = reviewed.get_absolute_url(), reverse("submission_act", args=[reviewed.token])
    assert "Finished, not public yet" in client.get(page).content.decode()
    assert "which only you can see" in client.get(page).content.decode()
    trip = Trip.objects.exclude(restored=None).first()
    own = reverse("submission_picture", args=[reviewed.token, "thumbnail", trip.restored_id])
    assert client.get(own).status_code == 200
    client.post(act, {"act": "share"})
    reviewed.refresh_from_db()
    shared = reverse("embargo", args=[reviewed.embargo_token])
    text = client.get(shared).content.decode()
    assert "Under embargo" in text
    assert reviewed.token not in text
    theirs = own.replace(reviewed.token, reviewed.embargo_token)
    assert client.get(theirs).status_code == 200
    tested = reverse(
        "submission_picture", args=[reviewed.embargo_token, "thumbnail", reviewed.probe_edited_id]
    )
    assert client.get(tested).status_code == 404  # the result, and nothing else
    for address in (finished.get_absolute_url(), trip.restored.thumbnail_url):
        assert client.get(address).status_code == 404
    type(finished).objects.filter(pk=finished.pk).update(withdrawn_at=timezone.now())
    assert client.get(shared).status_code == client.get(theirs).status_code == 404
    type(finished).objects.filter(pk=finished.pk).update(withdrawn_at=None)
    assert client.get(shared).status_code == client.get(theirs).status_code == 200
    client.post(act, {"act": "unshare"})
    assert client.get(shared).status_code == client.get(theirs).status_code == 404
    client.post(act, {"act": "share"})
    client.post(act, {"act": "publish"})
    reviewed.refresh_from_db()
    finished.refresh_from_db()
    assert finished.published
    model = reviewed.editing_model.get_absolute_url()
    assert client.get(reverse("embargo", args=[reviewed.embargo_token])).url == model
    # One state, in the same words everywhere.
    words = finished.public_state
    assert words.startswith("Published")
    for address in (page, finished.get_absolute_url()):
        assert words in html.unescape(client.get(address).content.decode())


def test_a_flagged_result_says_so_in_the_same_words_everywhere(client, reviewed, finished):
    flag = {"kind": "review", "text": "of its marks 0% came back"}
    Run.objects.update(flags=[flag], complete=True)
    words = "Published, not ranked: of its marks 0% came back; a person is checking"
    client.force_login(User.objects.get(username="owner"))
    data = {"action": "publish", "_selected_action": [finished.pk]}
    admin = client.post(reverse("admin:leaderboard_run_changelist"), data, follow=True)
    client.logout()
    board = client.get(f"/?suite={finished.suite.key}").content.decode()
    assert "Of its marks 0% came back; a person is checking" in board
    pages = [reviewed.get_absolute_url(), finished.get_absolute_url()]
    for text in (admin.content, *(client.get(page).content for page in pages)):
        assert words in text.decode()
    assert "on the board." not in client.get(pages[0]).content.decode()


def test_what_was_published_and_is_withdrawn_keeps_its_address(client, reviewed, finished):
    act = reverse("submission_act", args=[reviewed.token])
    model = reviewed.editing_model.get_absolute_url()
    client.post(act, {"act": "withdraw", "sure": "on"})
    assert client.get(model).status_code == 404  # it was never public: nobody hears of it
    Submission.objects.update(state=State.APPROVED)
    EditingModel.objects.update(status=EditingModel.Status.PUBLISHED)
    client.post(act, {"act": "publish"})
    assert client.get(model).status_code == 200
    client.post(act, {"act": "withdraw", "sure": "on"})
    for address in (model, finished.get_absolute_url()):
        answer = client.get(address)
        assert answer.status_code == 410
        assert "was withdrawn on" in answer.content.decode()


def test_what_an_admin_took_off_the_board_the_submitter_cannot_put_back(client, reviewed, finished):
    act = reverse("submission_act", args=[reviewed.token])
    client.post(act, {"act": "publish"})
    Run.objects.all().withdraw()
    client.post(act, {"act": "publish"})
    assert not Run.objects.get().published
    assert "by an admin" in client.get(reviewed.get_absolute_url()).content.decode()


def test_a_run_elsewhere_is_not_the_submitters(client, reviewed, finished):
    elsewhere = tiny_suite(slug="elsewhere")
    run = jobs.start(reviewed.editing_model, elsewhere)
    assert run.pk > finished.pk
    reviewed.refresh_from_db()
    assert workflow.run_of(reviewed) == finished


def test_the_page_says_what_a_run_costs_and_how_long_reviews_took(client, reviewed, suite):
    text = client.get(reviewed.get_absolute_url()).content.decode()
    assert "calls to your endpoint" in text
    assert "we cannot promise a time" in text
    now = timezone.now()
    for hours in (1, 2, 30):
        Submission.objects.create(
            name=f"Reviewed {hours}",
            email="a@example.org",
            suite=suite,
            state=State.REJECTED,
            probed_at=now - timedelta(hours=hours),
            reviewed_at=now,
        )
    state = client.get(reverse("submission_state", args=[reviewed.token])).json()
    assert "half were reviewed within 2 h, all within 30 h" in state["queue"]


def test_a_reviewer_sees_what_changed_since_it_was_sent(owner, reviewed):
    reviewed.model_id = "another-model"
    reviewed.save()
    page = owner.get(reverse("admin:leaderboard_submission_review", args=[reviewed.pk]))
    assert "another-model" in page.content.decode()
    assert "the submitter" in page.content.decode()
    change = owner.get(reverse("admin:leaderboard_submission_change", args=[reviewed.pk]))
    address = reverse("admin:leaderboard_submission_review", args=[reviewed.pk])
    for link in (address, f"{address}?decision=ask", f"{address}?decision=reject"):
        assert f'href="{link}"' in change.content.decode()
    asked = owner.get(f"{address}?decision=ask").context["form"]
    assert asked["decision"].value() == "ask"
    assert asked["budget_calls"].value() >= reviewed.suite.core.edits


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
        "ConvergeBench: your submission: Testing the endpoint",
        "ConvergeBench: your submission: Waiting for review",
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
        "ConvergeBench: your submission: The test failed"
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
