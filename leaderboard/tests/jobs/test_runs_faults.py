"""Faults of storage, database, clocks and garbage collection: a run loses nothing."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from django.core.files.storage import default_storage
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.utils import timezone

from evaluation.errors import EditorError, Fault
from evaluation.images import EncodedImage
from evaluation.play import score as score_loop
from evaluation.play.store import ChainTaken
from evaluation.testing.editing_server import EditingServer
from evaluation.testing.waiting import wait_until
from leaderboard import jobs
from leaderboard.jobs import control, database_store, pacing, resilience, score_job
from leaderboard.jobs.database_store import DatabaseStore
from leaderboard.jobs.resilience import retry_database
from leaderboard.models import Call, Chain, Pace, Run, RunProgress, StoredImage, Trip
from leaderboard.models.runs import Outcome, RunState
from leaderboard.operation import storage
from leaderboard.testing import factories
from leaderboard.testing.fake_s3 import FakeS3
from leaderboard.testing.served_runs import interfere, played, scored, started

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick"), pytest.mark.both_databases]


# Storage


def test_a_run_whose_images_are_in_s3_is_played_scored_and_cleaned_up_after(
    server: EditingServer, s3: FakeS3
) -> None:
    run = scored(played(started(server)))
    assert run.provenance["answers"] == {"returned": run.suite.size}
    assert run.state == RunState.FINISHED, run.reason_text
    originals = {name for name in s3.objects if name.startswith("originals/")}
    assert {stored.name for stored in StoredImage.objects.all()} == originals
    thumbnails = [name for name in s3.puts if name.startswith("thumbnails/")]
    assert len(thumbnails) == len(set(thumbnails))  # each is drawn once
    orphan = StoredImage.objects.get_or_store(EncodedImage.from_image(factories.drawn_image(77)))
    assert storage.collect(timedelta(seconds=-5)).rows == 1
    assert orphan.name not in s3.objects
    assert originals < set(s3.objects)


@pytest.mark.parametrize("status", [403, 503])
def test_s3_that_answers_with_errors_pauses_the_run_and_it_continues_later(
    server: EditingServer, s3: FakeS3, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resilience, "STORAGE_PATIENCE_SECONDS", 0.5)
    run = started(server)
    s3.fails = status
    played(run)
    assert (run.state, run.reason) == (RunState.PAUSED, "storage")
    assert run.resume_at
    assert not Trip.objects.exists()
    s3.fails = 0
    jobs.resume(run)
    assert scored(played(run)).state == RunState.FINISHED
    assert not run.chains.filter(outcome=Outcome.LOST).exists()


def test_a_job_waits_while_s3_restarts_and_no_edit_is_paid_twice(
    server: EditingServer, s3: FakeS3
) -> None:
    run = started(server)
    s3.fails, s3.failures = 503, 5
    assert played(run).state == RunState.SCORING, run.reason_text
    s3.fails, s3.failures = 503, 5
    assert scored(run).state == RunState.FINISHED, run.reason_text
    assert Call.objects.filter(run=run).count() == run.progress.edits_done


def test_a_full_disk_while_scoring_pauses_the_run_and_it_resumes_by_itself(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    run = played(started(server))
    with monkeypatch.context() as patch:
        patch.setattr("convergebench_site.storage.WholeFileStorage._save", full)
        # Also what an earlier test of the same images left on the disk.
        patch.setattr("convergebench_site.storage.WholeFileStorage.exists", lambda *args: False)
        scored(run)
    assert (run.state, run.reason, run.progress.trips_scored) == (RunState.PAUSED, "storage", 0)
    assert "No space left" in run.reason_text
    assert run.resume_at
    Run.objects.update(resume_at=timezone.now() - timedelta(seconds=1))
    jobs.sweep()
    assert scored(played(run)).state == RunState.FINISHED


def test_a_thumbnail_is_made_once_even_if_a_run_is_scored_again(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scored(played(started(server)))
    monkeypatch.setattr("leaderboard.models.images.thumbnail", lambda image: 1 / 0)
    jobs.score_again(run)
    assert scored(run).state == RunState.FINISHED


# Garbage collection


@pytest.mark.django_db(transaction=True)
def test_garbage_collection_removes_no_image_of_a_run_under_way(server: EditingServer) -> None:
    """The worst case: every answer is an old, unreferenced image."""
    first = played(started(server))
    suite, model = first.suite, first.editing_model
    names = set(StoredImage.objects.values_list("pk", flat=True))
    first.delete()
    long_ago = timezone.now() - timedelta(days=9)
    StoredImage.objects.update(created_at=long_ago)
    for stored in StoredImage.objects.all():
        os.utime(default_storage.path(stored.name), (1, 1))
    ended, failures = threading.Event(), []

    def collect() -> None:
        while not ended.is_set():
            try:
                storage.collect(timedelta(days=1))
            except Exception as error:
                failures.append(error)
        connection.close()

    collector = threading.Thread(target=collect)
    collector.start()
    try:
        again = played(jobs.start(model, suite, secret=first.secret))
    finally:
        ended.set()
        collector.join()
    assert again.state == RunState.SCORING, again.reason_text
    assert set(again.chains.values_list("outcome", flat=True)) == {Outcome.COMPLETED}
    assert scored(again).state == RunState.FINISHED
    assert set(StoredImage.objects.values_list("pk", flat=True)) == names
    assert not failures


@pytest.mark.django_db(transaction=True)
def test_garbage_collection_cannot_run_between_storing_an_image_and_its_trip(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    first = played(started(server))
    suite, model = first.suite, first.editing_model
    first.delete()
    StoredImage.objects.update(created_at=timezone.now() - timedelta(days=9))
    collectors: list[threading.Thread] = []

    def collect() -> None:
        storage.collect(timedelta(days=1))
        connection.close()

    keep = database_store._save_answer_row

    def collecting(*args: Any) -> None:
        if not collectors:
            collectors.append(threading.Thread(target=collect))
            collectors[0].start()
            collectors[0].join(timeout=0.5)
        keep(*args)

    monkeypatch.setattr(database_store, "_save_answer_row", collecting)
    again = played(jobs.start(model, suite))
    collectors[0].join()
    assert again.state == RunState.SCORING, again.reason_text
    assert scored(again).state == RunState.FINISHED


# The database


def test_an_unavailable_database_while_scoring_needs_no_person(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any) -> None:
        raise OperationalError("the connection is closed")

    run = played(started(server))
    for module, name in ((score_loop, "score_chains"), (score_job.standings, "rebuild")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, away)
            with pytest.raises(OperationalError):
                jobs.score(run.pk)
        run.refresh_from_db()
        assert run.state == RunState.SCORING
    assert scored(run).state == RunState.FINISHED


def test_one_worker_finalises_a_run_even_if_that_takes_longer_than_a_lease(
    server: EditingServer,
) -> None:
    run = played(started(server))
    with resilience.finalising(run, uuid4()) as ours:
        assert ours
        with resilience.finalising(run, uuid4()) as theirs:
            assert not theirs
    run.refresh_from_db()
    assert run.token is None
    with resilience.finalising(run, uuid4()) as next_one:
        assert next_one


@pytest.mark.django_db(transaction=True)
def test_a_claim_of_finalising_is_renewed_meanwhile(server: EditingServer, settings: Any) -> None:
    run = played(started(server))
    settings.LEASE_SECONDS = 0.6
    with resilience.finalising(run, uuid4()):
        run.refresh_from_db()
        first = run.lease_until
        assert first
        wait_until(lambda: timezone.now() > first)
        assert not run.claim_finalising(uuid4())


def test_another_worker_finalises_a_run_one_lease_after_a_kill(
    server: EditingServer,
) -> None:
    run = played(started(server))
    assert run.claim_finalising(uuid4())  # and is killed
    assert scored(run).state == RunState.SCORING
    Run.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert scored(run).state == RunState.FINISHED


def test_a_run_killed_between_its_start_and_its_provenance_gets_it_from_the_next_job(
    server: EditingServer,
) -> None:
    run = started(server)
    assert run.move(RunState.PLAYING)
    played(run)
    assert run.started_at
    assert run.provenance["suite"]["content_hash"] == run.suite.content_hash


def test_counters_recounted_while_a_run_plays_are_complete(server: EditingServer) -> None:
    run = played(started(server, budget_calls=7))
    RunProgress.objects.update(calls=99, edits_done=99, spent_usd=Decimal(9))
    run.refresh_from_db()
    control.recount(run)
    run.refresh_from_db()
    assert (run.progress.calls, run.progress.edits_done, run.progress.spent_usd) == (7, 7, 0)


def test_a_scoring_job_from_before_a_rescore_writes_nothing(server: EditingServer) -> None:
    run = scored(played(started(server)))
    Chain.objects.update(trips_scored=0)
    job = score_job.ScoreJob(run, uuid4())
    chain = Chain.objects.claim_scores(run, job.token, 1)[0]
    trips = list(chain.trips.all()[:1])
    jobs.score_again(run)
    with pytest.raises(ChainTaken):
        job.store._write(chain, trips, [])


def test_a_chain_released_during_an_edit_is_not_played_twice_by_the_same_job(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that was delayed for longer than its lease claims chains that the sweep released."""
    server.latency = 0.3
    taken_back: list[int] = []

    def after_a_lapse(store: DatabaseStore) -> bool:
        if server.in_flight < 4:
            return False
        Chain.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        taken_back.append(Chain.objects.release_lapsed())
        return True

    interfere("tick", after_a_lapse, monkeypatch)
    run = played(started(server, max_in_flight=16))
    assert taken_back == [4]
    assert run.state == RunState.SCORING
    assert run.ledger.filter(outcome=Call.ANSWERED).count() == 24
    assert run.ledger.filter(outcome=Call.LOST).count() == 4
    assert len(server.calls) == 28


# Clocks and rate limits


def limited(after: float | None) -> EditorError:
    return EditorError("slow down", fault=Fault.RATE_LIMITED, retry_after=after)


def test_a_worker_with_a_wrong_clock_delays_no_other(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = factories.editing_model("served", "endpoint", calls_per_minute=60)
    wrong, right = pacing.Pacer(model), pacing.Pacer(model)
    ahead = timezone.now() + timedelta(hours=5)
    with monkeypatch.context() as patch:
        patch.setattr(timezone, "now", lambda: ahead)
        assert wrong.reserve() == 0
        wrong.note(limited(20))
    assert 15 < wrong.seconds_blocked <= 20
    until, now = Pace.objects.values_list("blocked_until", Now()).get()
    right.update(until, 1, now)
    assert 15 < right.seconds_blocked <= 20
    next_call = Pace.objects.get().next_call_at
    assert next_call
    assert next_call < timezone.now() + timedelta(seconds=5)


def test_an_endpoint_with_retry_after_0_is_called_less_and_less_often() -> None:
    waits = [pacing._block_seconds(limited(0.0), failures) for failures in range(1, 13)]
    assert waits[:4] == [0, 0, 0, 0]
    assert all(later > sooner for sooner, later in pairwise(waits[4:]))
    assert waits[-1] > database_store.LONG_BLOCK_SECONDS
    assert pacing._block_seconds(limited(1e9), 1) == pacing.LONGEST_BLOCK


def test_calls_that_cost_more_than_the_listed_price_stay_within_the_budget(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evaluation.editors.endpoint import Endpoint

    edit = Endpoint.edit

    def dear(*args: Any, **options: Any) -> Any:
        answer = edit(*args, **options)
        return type(answer)(answer.image, answer.seconds, 0.06, answer.notes)

    monkeypatch.setattr(Endpoint, "edit", dear)
    budget = {"budget_usd": Decimal("0.50"), "price_per_edit": Decimal("0.04"), "max_in_flight": 1}
    run = played(started(server, **budget))
    assert (run.state, run.reason) == (RunState.PAUSED, "budget")
    assert Decimal("0.40") < run.progress.spent_usd <= Decimal("0.50")


def test_old_unreferenced_images_are_garbage(server: EditingServer) -> None:
    run = played(started(server, trips=1))
    orphan = StoredImage.objects.get_or_store(factories_image(50))
    young = StoredImage.objects.get_or_store(factories_image(51))
    StoredImage.objects.exclude(pk=young.pk).update(created_at=timezone.now() - timedelta(days=2))
    counted = storage.collect(timedelta(days=1), dry_run=True)
    assert counted.rows == 1
    assert StoredImage.objects.filter(pk=orphan.pk).exists()
    storage.collect(timedelta(days=1))
    assert not StoredImage.objects.filter(pk=orphan.pk).exists()
    assert orphan.read()  # its file is young yet
    storage.collect(timedelta(0))
    with pytest.raises(FileNotFoundError):
        orphan.read()
    for trip in Trip.objects.select_related("edited", "restored"):
        assert trip.edited
        assert trip.edited.read()
    assert run.suite.images.all()[0].stored.read()


def factories_image(number: int) -> EncodedImage:
    return EncodedImage.from_image(factories.drawn_image(number))


def test_a_chain_with_a_missing_image_is_lost_and_the_run_continues(server: EditingServer) -> None:
    run = played(started(server, budget_calls=13))
    trip = Trip.objects.filter(restored__isnull=False).latest("number")
    last = trip.chain.trips.latest("number")
    default_storage.delete((last.restored or last.edited).name)  # type: ignore[union-attr]
    RunProgress.objects.update(budget_calls=None)
    jobs.resume(run)
    played(run)
    assert run.state == RunState.SCORING
    lost = run.chains.get(outcome=Outcome.LOST)
    assert lost.pk == trip.chain_id
    assert "gone from storage" in lost.outcome_text


@pytest.mark.django_db(transaction=True)
def test_queries_are_repeated_if_the_database_drops_its_connections(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(server)
    drops: list[int] = []

    def drop(store: DatabaseStore) -> bool:
        # Between two drops the job may have had nothing to write, and this is the first to notice.
        if retry_database(Trip.objects.count) > 3 * len(drops):
            drops.append(1)
            connection.connection.close()  # as a restarted server does
        return len(drops) == 3

    interfere("_save_answer", drop, monkeypatch)
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has no server that could go away")
    played(run)
    assert run.state == RunState.SCORING
    assert len(drops) == 3
    assert len(server.calls) == 24
