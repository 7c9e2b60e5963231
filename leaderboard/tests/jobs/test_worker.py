"""Real workers on a real Valkey: jobs, kills, outages."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django_rq
import pytest
import redis
from rq.exceptions import StopRequested
from rq.job import Callback

from evaluation.testing.editing_server import EditingServer
from leaderboard import job_queue, jobs
from leaderboard.jobs.worker import RunWorker
from leaderboard.models import Call, Chain, Run, Trip
from leaderboard.models.runs import RunState
from leaderboard.testing import factories
from leaderboard.testing.served_runs import started
from leaderboard.testing.worker_processes import WorkerProcesses

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def server() -> Iterator[EditingServer]:
    with EditingServer(latency=0.05) as server:
        yield server


def state(run: Run) -> str:
    run.refresh_from_db()
    return run.state


@pytest.mark.both_databases
def test_a_run_is_played_scored_and_finished(
    workers: WorkerProcesses, server: EditingServer
) -> None:
    workers.start("edits")
    workers.start("gpu")
    run = started(server)
    workers.wait(lambda: state(run) == RunState.FINISHED)
    assert len(server.calls) == run.progress.calls == 24
    assert run.standings.exists()


def test_a_run_queued_while_redis_is_down_starts_when_it_is_back(
    workers: WorkerProcesses, server: EditingServer, valkey: Any
) -> None:
    valkey.kill()
    run = started(server)  # saved, but not enqueued
    assert state(run) == RunState.QUEUED
    hired = [workers.start("edits"), workers.start("gpu")]
    workers.wait(lambda: workers.logs().count("waiting for redis") == 2)
    valkey.start()
    workers.wait(lambda: state(run) == RunState.FINISHED)
    assert len(server.calls) == 24
    assert [worker.poll() for worker in hired] == [None, None]


def test_a_run_survives_an_emptied_and_restarted_redis(
    workers: WorkerProcesses, server: EditingServer, valkey: Any
) -> None:
    server.latency = 0.3
    edits, gpu = workers.start("edits"), workers.start("gpu")
    run = started(server, trips=6)
    client = redis.Redis(unix_socket_path=valkey.socket)
    workers.wait(lambda: len(server.calls) >= 6)
    client.flushall()
    workers.wait(lambda: len(server.calls) >= 16)
    valkey.kill()
    workers.wait(lambda: len(server.calls) >= 24)  # the work goes on without it
    valkey.start()
    workers.wait(lambda: job_queue.workers("edits") == 1)  # known as alive again
    client.flushall()
    workers.wait(lambda: state(run) == RunState.FINISHED)
    assert len(server.calls) == 48
    assert edits.poll() is None
    assert gpu.poll() is None


def test_a_killed_horse_loses_the_edit_in_flight_and_its_chains_continue_at_once(
    workers: WorkerProcesses, server: EditingServer
) -> None:
    server.latency = 1
    workers.environment["LEASE_SECONDS"] = "300"  # so that no test waits for it
    workers.start("edits")
    workers.start("gpu")
    run = started(server, trips=2)
    workers.wait(lambda: server.in_flight == 4)
    assert workers.kill("edits", horse=True)
    killed = time.monotonic()
    workers.wait(lambda: len(server.calls) >= 8)
    assert time.monotonic() - killed < 30
    workers.wait(lambda: state(run) == RunState.FINISHED)
    assert len(server.calls) == 16 + 4
    assert run.ledger.filter(outcome=Call.LOST).count() == 4


def test_the_horse_dies_with_its_parent_and_another_worker_takes_over(
    workers: WorkerProcesses, server: EditingServer
) -> None:
    server.latency = 1
    first = workers.start("edits", "first")
    run = started(server, trips=2)
    workers.wait(lambda: server.in_flight == 4)
    horse = workers.horse("first")
    assert horse
    workers.start("edits", "second")
    workers.start("gpu")
    first.kill()
    first.wait()
    del workers.processes["first"]
    killed = time.monotonic()
    workers.wait(lambda: not Path(f"/proc/{horse}").exists(), seconds=10)
    workers.wait(lambda: len(server.calls) >= 8, seconds=90)
    assert time.monotonic() - killed < 90
    workers.wait(lambda: state(run) == RunState.FINISHED)
    assert len(server.calls) <= 16 + 4


@pytest.mark.both_databases
def test_two_workers_share_a_run(workers: WorkerProcesses, server: EditingServer) -> None:
    server.latency = 0.5
    workers.environment |= {"MAX_CALLS_IN_FLIGHT": "2"}
    workers.start("edits", "first")
    workers.start("edits", "second")
    workers.wait(lambda: job_queue.workers("edits") == 2)
    run = started(server, trips=6)
    workers.wait(lambda: Chain.objects.in_flight().values("token").distinct().count() == 2)
    workers.wait(lambda: state(run) == RunState.SCORING)
    assert len(server.calls) == 48
    assert server.most_in_flight == 4


def test_cancel_frees_the_worker_in_the_middle_of_an_edit(
    workers: WorkerProcesses, server: EditingServer
) -> None:
    server.latency = 120
    workers.start("edits")
    run = started(server)
    workers.wait(lambda: server.in_flight == 4)
    jobs.cancel(run)
    cancelled = time.monotonic()
    workers.wait(lambda: not workers.horse("edits"))
    assert time.monotonic() - cancelled < 15
    assert not Chain.objects.in_flight().exists()


def test_a_stopped_worker_ends_between_two_edits_and_loses_nothing(
    workers: WorkerProcesses, server: EditingServer
) -> None:
    server.latency = 0.5
    edits = workers.start("edits")
    run = started(server, trips=6)
    workers.wait(lambda: len(server.calls) >= 6)
    os.kill(edits.pid, signal.SIGTERM)
    assert edits.wait(timeout=30) == 0
    assert Trip.objects.exists()
    assert run.ledger.filter(outcome=Call.CALLING).count() == 0
    assert not Chain.objects.in_flight().exists()
    workers.start("edits")
    workers.wait(lambda: state(run) == RunState.SCORING)
    assert len(server.calls) == 48


def test_a_worker_that_waits_for_redis_can_be_stopped(
    workers: WorkerProcesses, valkey: Any
) -> None:
    valkey.kill()
    edits = workers.start("edits")
    workers.wait(lambda: "waiting for redis" in workers.logs())
    os.kill(edits.pid, signal.SIGTERM)
    assert edits.wait(timeout=30) == 0
    assert "Traceback" not in workers.logs()


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Restore the signal handlers of this process after the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("valkey", "own_signals")
@pytest.mark.parametrize("error", [None, OSError])
def test_a_worker_can_be_stopped_during_a_sweep(
    settings: Any, monkeypatch: pytest.MonkeyPatch, error: type[Exception] | None
) -> None:
    """This holds even if the interrupted code raises an error of its own."""
    settings.SWEEP_SECONDS = 0
    looked: list[int] = []

    def sweep() -> None:
        looked.append(1)
        try:
            os.kill(os.getpid(), signal.SIGTERM if len(looked) == 1 else signal.SIGALRM)
        except StopRequested:
            if error:
                raise error from None
            raise

    def too_late(*args: Any) -> None:
        raise AssertionError("the worker went on")

    monkeypatch.setattr(jobs, "sweep", sweep)
    before = signal.signal(signal.SIGALRM, too_late)
    try:
        signal.alarm(30)
        RunWorker("edits").work(logging_level="WARNING")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert looked == [1]


def test_runs_take_turns_on_one_worker(
    workers: WorkerProcesses, server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run does not wait for the end of a very long first one."""
    server.latency = 0.3
    workers.environment["TURN_SECONDS"] = "2"
    workers.start("edits")
    long = started(server, trips=60)
    workers.wait(lambda: len(server.calls) >= 4)
    other = factories.editing_model("other", "jpeg")
    short = jobs.start(other, long.suite)
    workers.wait(lambda: Trip.objects.filter(chain__run=short).exists())
    assert state(long) == RunState.PLAYING
    assert len({call.edit for call in server.calls}) == len(server.calls)


def test_a_foreign_job_is_deleted_and_the_next_one_runs(
    workers: WorkerProcesses, server: EditingServer, valkey: Any, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    edits = django_rq.get_queue("edits", commit_mode="auto")
    edits.enqueue_call("os.system", args=(f"touch {mark}",))
    edits.enqueue_call("os.umask", args=(0,))  # a number, as our own take
    edits.enqueue_call("leaderboard.jobs.play", args=(0,), on_failure=Callback("os.abort"))
    edits.enqueue_call("leaderboard.jobs.play", kwargs={"run_id": 1})
    edits.enqueue_call("leaderboard.jobs.worker.os.system", args=(f"touch {mark}",))
    plain = redis.Redis(unix_socket_path=valkey.socket)
    plain.hset("rq:job:junk", mapping={"data": b"\x80\x04junk", "status": "nonsense"})
    plain.rpush("rq:queue:edits", "junk")
    workers.start("edits")
    run = started(server)
    workers.wait(lambda: state(run) == RunState.SCORING)
    assert not mark.exists()
    assert workers.logs().count("foreign job deleted") >= 6
    assert "os.umask" in workers.logs()
    assert "os.system" in workers.logs()
