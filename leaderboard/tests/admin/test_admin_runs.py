"""Operators and their runs."""

from __future__ import annotations

import math

import pytest
from django.contrib.auth.models import Group, User
from django.urls import reverse
from django.utils import timezone

from leaderboard import jobs
from leaderboard.models import Call, Run, RunProgress, RunReview
from leaderboard.models.runs import RunState
from leaderboard.testing.factories import editing_model, tiny_suite
from leaderboard.testing.played import play

pytestmark = pytest.mark.django_db
LIST = "admin:leaderboard_run_changelist"


@pytest.fixture
def operator(client):
    user = User.objects.create_user("otto", is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
    client.force_login(user)
    return client


@pytest.fixture
def model():
    return editing_model("noop", "noop")


@pytest.fixture
def small_suite():
    return tiny_suite()


def act(client, run: Run, action: str) -> str:
    data = {"action": action, "_selected_action": [run.pk]}
    return client.post(reverse(LIST), data, follow=True).content.decode()


def test_the_list_of_runs_says_how_many_edits_are_done(operator, model, small_suite):
    run = jobs.start(model, small_suite)
    page = operator.get(reverse(LIST)).content.decode()
    assert f"0 of {run.progress.edits_total} edits" in page


def test_the_first_page_offers_no_table_of_queues(admin_client):
    assert "Django-RQ" not in admin_client.get(reverse("admin:index")).content.decode()


def test_the_first_page_shows_queues_even_when_redis_is_down(operator, valkey):
    valkey.kill()
    text = operator.get(reverse("admin:index")).content.decode()
    assert "Redis does not answer" in text
    valkey.start()
    assert "0 workers, 0 waiting" in operator.get(reverse("admin:index")).content.decode()


def test_a_run_is_started_from_the_admin_even_without_redis(operator, model, small_suite):
    data = {"editing_model": model.pk, "suite": small_suite.pk, "budget_calls": 10}
    page = reverse("admin:leaderboard_run_add")
    asked = operator.post(page, data | {"budget_calls": ""})
    edits = small_suite.core.edits
    assert f"<td>{edits}" in asked.content.decode()
    assert f'value="{math.ceil(1.1 * edits)}"' in asked.content.decode()  # to start with
    assert not Run.objects.exists()
    answer = operator.post(page, data | {"confirmed": "Start the run"})
    assert answer.status_code == 302
    run = Run.objects.get()
    assert (run.state, run.progress.budget_calls) == (RunState.QUEUED, 10)
    assert run.chains.count() == small_suite.cases.count()


def test_pause_resume_and_cancel_are_actions_and_report_if_impossible(operator, model, small_suite):
    run = jobs.start(model, small_suite)
    assert "1 run(s) paused" in act(operator, run, "pause")
    assert "1 run(s) resumed" in act(operator, run, "resume")
    assert "1 run(s) cancelled" in act(operator, run, "cancel")
    assert "cannot be cancelled" in act(operator, run, "cancel")
    assert Run.objects.get().state == RunState.CANCELLED


def test_the_button_on_today_scores_a_run_with_changed_metrics_again(
    operator, model, small_suite, valkey
):
    run = jobs.start(model, small_suite)
    jobs.pause(run, "metric_version", "begun with another psnr")
    Run.objects.filter(pk=run.pk).update(metrics={"psnr": {"version": "0"}})
    RunProgress.objects.filter(pk=run.pk).update(trips_scored=3)
    assert (
        "Score everything" in operator.get(reverse("admin:leaderboard_run_today")).content.decode()
    )
    operator.post(reverse("admin:leaderboard_run_resume", args=[run.pk]))
    run.refresh_from_db()
    assert (run.state, run.metrics, run.progress.trips_scored) == (RunState.QUEUED, {}, 0)


def test_today_shows_and_resolves_what_needs_attention(operator, model, small_suite, valkey):
    paused, waiting = jobs.start(model, small_suite, budget_calls=5), jobs.start(model, small_suite)
    jobs.pause(paused, "budget")
    RunProgress.objects.filter(pk=paused.pk).update(calls=5)
    RunReview.objects.filter(pk=waiting.pk).update(
        flags=[{"kind": "review", "text": "marks were lost"}]
    )
    for outcome in (Call.ANSWERED, "server_error"):
        Call.objects.create(
            run=waiting,
            chain=waiting.chains.first(),
            number=1,
            direction="forward",
            outcome=outcome,
            message="it burns" if outcome != Call.ANSWERED else "",
            cost="0.25",
            started_at=timezone.now(),
        )
    page = reverse("admin:leaderboard_run_today")
    text = operator.get(page).content.decode()
    for words in (
        *("The budget is used up", "Raise the budget and resume", "marks were lost"),
        *("$0.50 for 2 calls", "1 x server_error", "it burns", "has waited"),
    ):
        assert words in text, words
    operator.post(reverse("admin:leaderboard_run_resume", args=[paused.pk]))
    paused.refresh_from_db()
    assert paused.state == RunState.QUEUED
    assert paused.progress.budget_calls >= 5 + paused.progress.edits_total
    assert (
        operator.get(reverse("admin:leaderboard_run_resume", args=[paused.pk])).status_code == 405
    )


def test_a_run_cannot_be_deleted(operator, model, small_suite):
    run = jobs.start(model, small_suite)
    assert operator.post(reverse("admin:leaderboard_run_delete", args=[run.pk])).status_code == 403


def test_saving_a_run_overwrites_nothing_the_worker_wrote(operator, model, small_suite):
    run = jobs.start(model, small_suite)
    page = reverse("admin:leaderboard_run_change", args=[run.pk])
    operator.get(page)
    Run.objects.filter(pk=run.pk).update(state=RunState.PLAYING)
    RunProgress.objects.filter(pk=run.pk).update(edits_done=7)
    operator.post(page, {"budget_calls": 99, "budget_usd": ""})
    fresh = Run.objects.get()
    assert (fresh.progress.edits_done, fresh.state, fresh.progress.budget_calls) == (
        7,
        RunState.PLAYING,
        99,
    )


def test_flags_are_shown_as_text(operator, model, small_suite):
    run = jobs.start(model, small_suite)
    RunReview.objects.update(flags=[{"kind": "copy", "text": "<script>alert(1)</script>"}])
    text = operator.get(reverse("admin:leaderboard_run_change", args=[run.pk])).content.decode()
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert(1)" not in text


def test_an_admins_decision_on_flags_needs_a_public_reason(operator, client, suite, quick_metrics):
    run = play("noise", suite, slug="judged", is_reference=False)
    RunReview.objects.filter(pk=run.pk).update(
        flags=[{"kind": "audit", "text": "marks did not return"}]
    )
    page = reverse("admin:leaderboard_run_change", args=[run.pk])
    data = {"published": "on", "budget_calls": "", "budget_usd": "", "cleared": "on"}
    assert "Give the reason why the run may rank" in operator.post(page, data).content.decode()
    run.refresh_from_db()
    assert not run.review.cleared
    public = run.get_absolute_url()
    assert "not ranked until a person has reviewed it" in client.get(public).content.decode()
    answer = operator.post(page, data | {"decision": "It redraws leaves, as it says."})
    assert answer.status_code == 302
    run.refresh_from_db()
    assert run.is_ranked == run.complete
    assert "It redraws leaves, as it says." in client.get(public).content.decode()
    assert operator.post(page, data | {"cleared": "", "decision": "It keeps sources."})
    run.refresh_from_db()
    assert not run.is_ranked
    assert "does not rank the run: It keeps sources." in client.get(public).content.decode()


def test_hints_are_shown_to_admins_with_images_and_affect_no_rank(
    operator, client, suite, quick_metrics
):
    run = play("noise", suite, slug="hinted", is_reference=False)
    case = run.chains.first().case_id
    evidence = {"case": case, "trip": 1, "direction": "backward", "detail": "trip 1 is the source"}
    hint = {"kind": "returned the source", "text": "in 2 of 4 chains", "evidence": [evidence]}
    RunReview.objects.filter(pk=run.pk).update(hints=[hint])
    run.refresh_from_db()
    text = operator.get(reverse("admin:leaderboard_run_change", args=[run.pk])).content.decode()
    assert "returned the source" in text
    assert run.chains.first().trips.first().restored.thumbnail_url in text
    assert run.is_ranked == run.complete
    client.logout()
    assert "returned the source" not in client.get(run.get_absolute_url()).content.decode()
