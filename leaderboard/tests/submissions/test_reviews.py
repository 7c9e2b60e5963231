"""A submission after its test: the review, the result, and who sees what."""

from __future__ import annotations

import html
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.urls import reverse
from django.utils import timezone

from leaderboard import jobs
from leaderboard.models import EditingModel, Run, RunReview, Submission, Trip
from leaderboard.models.runs import RunState
from leaderboard.operation.notifications import notify_submitter
from leaderboard.submissions import workflow
from leaderboard.testing.factories import tiny_suite
from leaderboard.testing.submission_fields import CANARY, form_fields

pytestmark = pytest.mark.django_db
State = Submission.State


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
    submission.refresh_from_db()
    seen = submission.updated_at.isoformat()
    data = {"seen": seen, "decision": decision, "suite": submission.suite_id, "message": ""}
    return client.post(page, data | values, follow=True)


def test_an_admin_approves_with_a_budget_and_the_run_has_the_key(owner, reviewed):
    decide(owner, reviewed, "approve", budget_calls=50, budget_usd="1.5")
    reviewed.refresh_from_db()
    run = Run.objects.get()
    assert reviewed.state == State.APPROVED
    assert (run.state, run.progress.budget_calls, float(run.progress.budget_usd)) == (
        RunState.QUEUED,
        50,
        1.5,
    )
    assert run.editing_model.api_key.reveal() == CANARY
    assert "being evaluated" in owner.get(reviewed.get_absolute_url()).content.decode()


def test_a_question_is_asked_and_answered(owner, reviewed):
    assert "State the question" in decide(owner, reviewed, "ask").content.decode()
    decide(owner, reviewed, "ask", message="Which licence?")
    page = owner.get(reviewed.get_absolute_url()).content.decode()
    assert "Which licence?" in page
    owner.post(reverse("submission_act", args=[reviewed.token]), {"act": "reply", "reply": "MIT"})
    reviewed.refresh_from_db()
    assert (reviewed.state, reviewed.reply) == (State.REVIEW, "MIT")


def test_a_submission_that_changed_during_its_review_is_not_decided(owner, reviewed, server):
    page = reverse("admin:leaderboard_submission_review", args=[reviewed.pk])
    opened = owner.get(page).context["form"]["seen"].value()
    act = reverse("submission_act", args=[reviewed.token])
    other = form_fields(reviewed.suite, endpoint_url=f"{server}/another")
    owner.post(act, {"act": "correct", **other})
    jobs.probe(reviewed.pk)
    answer = decide(owner, reviewed, "approve", seen=opened, budget_calls=77)
    assert "changed while you reviewed it" in html.unescape(answer.content.decode())
    reviewed.refresh_from_db()
    assert reviewed.endpoint_url == f"{server}/another"
    assert (reviewed.state, Run.objects.count()) == (State.REVIEW, 0)
    # What the reviewer typed is kept, and the page that shows what there is now can be sent.
    again = answer.context["form"]
    assert again["budget_calls"].value() == "77"
    decide(owner, reviewed, "approve", seen=again["seen"].value())
    assert Run.objects.count() == 1


@pytest.mark.parametrize("seen", ["", "yesterday", "\0"])
def test_a_decision_must_name_the_version_it_is_based_on(owner, reviewed, seen):
    answer = decide(owner, reviewed, "approve", seen=seen)
    assert answer.context is None or answer.context["form"]["seen"].errors
    assert not Run.objects.exists()


def test_a_rejection_gives_its_reason_and_ends_it(owner, reviewed):
    decide(owner, reviewed, "reject", message="A copy of another model.")
    assert "A copy of another model." in owner.get(reviewed.get_absolute_url()).content.decode()
    with pytest.raises(workflow.NotPossible):
        workflow.test_again(reviewed)


def test_withdrawing_cancels_the_run_and_deletes_the_key(owner, reviewed):
    decide(owner, reviewed, "approve")
    act = reverse("submission_act", args=[reviewed.token])
    owner.post(act, {"act": "withdraw"})
    reviewed.refresh_from_db()
    assert reviewed.state == State.APPROVED  # the withdrawal was not confirmed
    owner.post(act, {"act": "withdraw", "sure": "on"})
    reviewed.refresh_from_db()
    assert reviewed.state == State.WITHDRAWN
    assert not reviewed.api_key
    model = reviewed.editing_model
    assert not model.api_key
    assert model.status == EditingModel.Status.HIDDEN
    assert Run.objects.get().state == RunState.CANCELLED


def test_the_images_of_the_test_are_shown_to_holders_of_the_link_and_to_reviewers(client, reviewed):
    own = [image for _, image in reviewed.probe_images]
    assert len(own) == 3
    state = client.get(reverse("submission_state", args=[reviewed.token])).json()
    assert [shown["label"] for shown in state["images"]] == [
        *("Image we sent", "After the edit", "After the inverse edit")
    ]
    for shown in state["images"]:
        answer = client.get(shown["src"])
        assert (answer.status_code, answer["Content-Type"]) == (200, "image/webp")
        assert "private" in answer["Cache-Control"]
    stranger = reverse("submission_image", args=["x" * 32, "thumbnail", own[1].pk])
    assert client.get(stranger).status_code == 404
    assert client.get(own[1].thumbnail_url).status_code == 404
    client.force_login(User.objects.create_superuser("owner"))
    page = client.get(reverse("admin:leaderboard_submission_review", args=[reviewed.pk]))
    assert all(image.thumbnail_url in page.content.decode() for image in own)


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
    assert "Your result, not public yet" in client.get(page).content.decode()
    trip = Trip.objects.exclude(restored=None).first()
    own = reverse("submission_image", args=[reviewed.token, "thumbnail", trip.restored_id])
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
        "submission_image", args=[reviewed.embargo_token, "thumbnail", reviewed.probe_edited_id]
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


def test_the_private_result_shows_each_edit_that_was_not_made_and_asks_first(
    client, reviewed, finished
):
    row = {"witness": "detector", "thing": "a red kite", "made": False, "undone": None}
    row |= {"gates": False, "kept": None, "said": ""}
    Trip.objects.filter(chain__run=finished, number=1).update(evidence=[row])
    text = html.unescape(client.get(reviewed.get_absolute_url()).content.decode())
    cases = finished.chains.filter(repeat=0).count()
    assert f"In {cases} of {cases} cases that a witness could judge" in text
    assert text.count("a red kite: not seen, by ") == text.count("<figcaption>Edited") == cases
    assert "Publish it now" in text
    assert text.index("Everyone will read") < text.index("Publish it now")


def test_the_reason_of_a_flag_reads_the_same_everywhere(client, reviewed, finished):
    flag = {"kind": "review", "text": "of its marks 0% came back"}
    Run.objects.update(complete=True)
    RunReview.objects.update(flags=[flag])
    words = "Published, not ranked: of its marks 0% came back; under review"
    client.force_login(User.objects.get(username="owner"))
    data = {"action": "publish", "_selected_action": [finished.pk]}
    admin = client.post(reverse("admin:leaderboard_run_changelist"), data, follow=True)
    client.logout()
    board = client.get(f"/?suite={finished.suite.key}").content.decode()
    assert "Of its marks 0% came back; under review" in board
    pages = [reviewed.get_absolute_url(), finished.get_absolute_url()]
    for text in (admin.content, *(client.get(page).content for page in pages)):
        assert words in text.decode()
    assert "on the board." not in client.get(pages[0]).content.decode()


def test_a_withdrawn_result_keeps_its_address(client, reviewed, finished):
    act = reverse("submission_act", args=[reviewed.token])
    model = reviewed.editing_model.get_absolute_url()
    client.post(act, {"act": "withdraw", "sure": "on"})
    assert client.get(model).status_code == 404  # it was never public, so it stays hidden
    Submission.objects.update(state=State.APPROVED)
    EditingModel.objects.update(status=EditingModel.Status.PUBLISHED)
    client.post(act, {"act": "publish"})
    assert client.get(model).status_code == 200
    client.post(act, {"act": "withdraw", "sure": "on"})
    for address in (model, finished.get_absolute_url()):
        answer = client.get(address)
        assert answer.status_code == 410
        assert "was withdrawn on" in answer.content.decode()


def test_a_submitter_cannot_republish_what_an_admin_withdrew(client, reviewed, finished):
    act = reverse("submission_act", args=[reviewed.token])
    client.post(act, {"act": "publish"})
    Run.objects.all().withdraw()
    client.post(act, {"act": "publish"})
    assert not Run.objects.get().published
    assert "by an admin" in client.get(reviewed.get_absolute_url()).content.decode()


def test_a_run_on_another_suite_is_not_the_submitters(client, reviewed, finished):
    elsewhere = tiny_suite(slug="elsewhere")
    run = jobs.start(reviewed.editing_model, elsewhere)
    assert run.pk > finished.pk
    reviewed.refresh_from_db()
    assert workflow.newest_run(reviewed) == finished


def test_the_page_states_the_cost_of_a_run_and_the_usual_wait_for_a_review(client, reviewed, suite):
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


def test_a_reviewer_sees_the_changes_since_submission(owner, reviewed):
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


def test_a_new_key_resumes_a_run_that_waits_for_it(owner, reviewed):
    decide(owner, reviewed, "approve")
    run = Run.objects.get()
    jobs.pause(run, "key_rejected", "The endpoint rejected the key")
    assert "Set a new key, and" in owner.get(reviewed.get_absolute_url()).content.decode()
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
def test_mails_state_the_next_step(client, suite, server, settings, valkey):
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
def test_a_repeated_test_is_reported_only_if_its_result_differs(
    client, suite, server, settings, valkey
):
    settings.ALLOW_LOCAL_ENDPOINTS = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    client.post(reverse("submit"), form_fields(suite, endpoint_url=server))
    submission = Submission.objects.get()
    jobs.probe(submission.pk)
    sent = len(mail.outbox)

    for _ in range(2):
        workflow.test_again(Submission.objects.get())
        jobs.probe(submission.pk)
    assert Submission.objects.get().state == State.REVIEW
    assert len(mail.outbox) == sent

    Submission.objects.update(endpoint_url="http://127.0.0.1:9/v1")
    workflow.test_again(Submission.objects.get())
    jobs.probe(submission.pk)
    assert [message.subject for message in mail.outbox[sent:]] == [
        "ConvergeBench: your submission: The test failed"
    ]


def test_a_mail_before_the_review_contains_no_text_of_the_submission(
    suite, django_capture_on_commit_callbacks
):
    submission = Submission.objects.create(
        name="Cheap watches at https://spam.example", email="victim@example.org", suite=suite
    )
    with django_capture_on_commit_callbacks(execute=True):
        notify_submitter(submission)
    (sent,) = mail.outbox
    assert "spam" not in f"{sent.subject}{sent.body}"
    submission.state = State.APPROVED
    with django_capture_on_commit_callbacks(execute=True):
        notify_submitter(submission)
    assert "Cheap watches" in mail.outbox[-1].subject


def test_an_admin_can_have_endpoints_tested_again(owner, reviewed):
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
