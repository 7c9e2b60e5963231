"""The status of a run for people: progress, queue, and the reason of a pause."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import F
from django.utils import timezone

from evaluation.testing.editing_server import EditingServer
from leaderboard import job_queue, jobs
from leaderboard.jobs import database_store, pacing, play_job
from leaderboard.jobs.database_store import DatabaseStore
from leaderboard.models import Run, RunProgress, SecurityEvent
from leaderboard.models.runs import RunState
from leaderboard.pages import run_page
from leaderboard.pages.run_page import progress
from leaderboard.testing import factories
from leaderboard.testing.served_runs import played, served, started

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick")]


def test_progress_counts_remaining_work_in_few_queries(
    server: EditingServer, django_assert_max_num_queries: Any, valkey: Any
) -> None:
    valkey.kill()
    run_page._workers.clear()
    run = played(started(server, budget_calls=10))
    minute_ago = timezone.now() - timedelta(minutes=1)
    Run.objects.update(state=RunState.PLAYING, started_at=minute_ago)
    run = Run.objects.select_related("editing_model", "suite").get()
    with django_assert_max_num_queries(3):
        now = progress(run)
    assert now["edits"]["done"] == 10
    assert 14 <= now["edits"]["left"] <= 24
    assert now["edits_per_minute"]
    assert now["workers"] == {job_queue.EDITS: None, job_queue.GPU: None}  # no Redis here
    assert not now["ended"]


def test_a_queued_run_shows_its_place_in_the_queue(server: EditingServer) -> None:
    model, suite = served(server), factories.tiny_suite()
    runs = [jobs.start(model, suite) for _ in range(3)]
    assert [progress(run)["position"] for run in runs] == [1, 2, 3]


def test_a_blocked_address_is_a_security_event_and_needs_a_person(
    server: EditingServer, settings: Any
) -> None:
    settings.ALLOW_LOCAL_ENDPOINTS = False
    run = started(server)
    run.editing_model.options |= {"url": "https://localhost/edit", "allow_local": True}
    run.editing_model.save()
    played(run)
    assert run.state == RunState.PAUSED
    assert run.resume_at is None
    assert not server.calls


def test_an_internal_error_pauses_the_run_instead_of_recurring_for_ever(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(database_store, "_save_answer_row", broken)
    run = played(started(server))
    assert (run.state, run.reason) == (RunState.PAUSED, "internal")
    assert "a bug" in run.reason_text
    assert not run.chains.in_flight().exists()


def test_an_alarm_of_the_endpoint_guard_is_recorded(server: EditingServer) -> None:
    run = started(server)
    DatabaseStore(run, uuid4(), job_queue.EDITS).alarm("redirect", "to 10.0.0.1")
    event = SecurityEvent.objects.get()
    assert (event.kind, event.editing_model) == ("redirect", run.editing_model)


def test_a_run_that_continues_with_other_code_records_it(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = played(started(server, budget_calls=3))
    assert run.provenance["code"]["version"]
    assert run.provenance["model"]["contract"] == "huggingface"
    assert "later" not in run.provenance
    for version in ("99", "99", "100"):
        monkeypatch.setattr(play_job, "code_version", lambda version=version: {"version": version})
        RunProgress.objects.update(budget_calls=F("budget_calls") + 1)
        jobs.resume(run)
        played(run)
    assert run.provenance["later"] == [{"code": {"version": "99"}}, {"code": {"version": "100"}}]


def test_a_failing_endpoint_is_paused_for_longer_each_time(server: EditingServer) -> None:
    pacer = pacing.Pacer(started(server).editing_model)
    rests = []
    for failures in (1, 5, 10, 20, 50, 5000):
        pacer.failures = failures
        rests.append(pacing.pause_seconds(pacer))
    assert rests == [60, 60, 120, 480, 3600, 3600]
