"""kill -9, again and again: the run has the same results as without kills."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation.testing.editing_server import EditingServer
from leaderboard import jobs
from leaderboard.models import Audit, Call, Run, Score, Trip
from leaderboard.models.runs import RunState
from leaderboard.testing import factories
from leaderboard.testing.served_runs import served
from leaderboard.testing.worker_processes import WorkerProcesses

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.usefixtures("local", "quick_metrics"),
    pytest.mark.both_databases,
]

#: What is killed, and how often before a release: the worker's horse, its parent, and Valkey.
OFTEN = {
    ("edits", "horse"): 8,
    ("edits", "parent"): 7,
    ("gpu", "horse"): 5,
    ("gpu", "parent"): 4,
    ("valkey", ""): 4,
}
SECRET = "5" * 64
IN_FLIGHT = 4


@pytest.fixture
def server() -> Iterator[EditingServer]:
    with EditingServer(latency=0.0) as server:
        yield server


def images(run: Run) -> list[Any]:
    names = ("chain__case__slug", "number", "edited", "restored", "change_seen", "step")
    return list(Trip.objects.filter(chain__run=run).order_by(*names[:2]).values_list(*names))


def distances(run: Run) -> list[Any]:
    names = ("trip__chain__case__slug", "trip__number", "metric__name", "distance")
    rows = Score.objects.filter(trip__chain__run=run)
    return list(rows.order_by(*names[:3]).values_list(*names))


def findings(run: Run) -> list[Any]:
    names = ("chain__case__slug", "number", "sent", "answer", "finding")
    return list(Audit.objects.filter(chain__run=run).order_by(*names[:2]).values_list(*names))


def standings(run: Run) -> list[Any]:
    names = ("metric__name", "threshold", "scope", "half_life", "usable_trips", "auc", "curve")
    return list(run.standings.order_by(*names[:3]).values_list(*names))


@pytest.mark.parametrize(
    ("wanted", "trips"),
    [
        pytest.param(dict.fromkeys(OFTEN, 1), 12, id="one of each kind"),
        pytest.param(OFTEN, 30, id="often", marks=pytest.mark.release),
    ],
)
def test_kills_at_random_moments_change_nothing(
    server: EditingServer,
    valkey: Any,
    tmp_path: Path,
    settings: Any,
    wanted: dict[tuple[str, str], int],
    trips: int,
) -> None:
    settings.AUDITS, settings.WITNESSES = 12, ["geometry"]  # as the workers have it
    model = served(server, max_in_flight=IN_FLIGHT)
    suite = factories.tiny_suite(images=3, trips=trips)
    undisturbed = jobs.start(model, suite, secret=SECRET)
    jobs.play(undisturbed.pk)
    jobs.score(undisturbed.pk)
    undisturbed.refresh_from_db()
    assert undisturbed.state == RunState.FINISHED
    valkey.kill()
    valkey.start()

    server.calls.clear()
    server.latency = 1.2  # long enough that most kills hit calls in flight
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    plan = [kill for kill, times in wanted.items() for _ in range(times)]
    chance.shuffle(plan)
    kills: Counter[tuple[str, str]] = Counter()
    with WorkerProcesses(tmp_path, LEASE_SECONDS=5) as workers:
        for name in ("edits-1", "edits-2", "gpu-1", "gpu-2"):
            workers.start(name.partition("-")[0], name)
        run = jobs.start(model, suite, secret=SECRET)

        def at_work(queue: str) -> list[str]:
            names = [name for name in workers.processes if name.startswith(queue)]
            return [name for name in names if workers.horse(name)]

        for queue, what in plan:
            time.sleep(chance.uniform(0.05, 0.8))
            if queue == "valkey":
                valkey.kill()
                time.sleep(chance.uniform(0, 1))
                valkey.start()
            else:
                workers.wait(lambda queue=queue: at_work(queue))
                if not workers.kill(chance.choice(at_work(queue) or [""]), horse=what == "horse"):
                    continue
            kills[queue, what] += 1
            workers.restart_dead()
        server.latency = 0.01  # enough: let it end
        workers.wait(lambda: Run.objects.get(pk=run.pk).state == RunState.FINISHED, seconds=300)
        logs = workers.logs(last=40)
    run.refresh_from_db()

    assert kills.total() >= 0.9 * len(plan), (kills, seed)
    assert images(run) == images(undisturbed), f"seed {seed}\n{logs}"
    assert distances(run) == distances(undisturbed), f"seed {seed}\n{logs}"
    assert standings(run) == standings(undisturbed)
    edits = suite.cases.count() * trips * 2
    calls = edits + 6  # one audit of each chain
    assert (run.progress.edits_done, run.progress.chains_done, run.progress.trips_scored) == (
        calls,
        6,
        edits // 2,
    )
    assert findings(run) == findings(undisturbed), f"seed {seed}\n{logs}"
    answered = run.ledger.filter(outcome=Call.ANSWERED).count()
    assert answered == calls, f"{answered}, seed {seed}\n{logs}"
    # A kill costs at most the edit in flight of each chain, and the ledger shows it.
    repeated = len(server.calls) - len({call.edit for call in server.calls})
    deadly = kills["edits", "horse"] + kills["edits", "parent"]
    assert repeated <= run.ledger.filter(outcome=Call.LOST).count()
    assert repeated <= deadly * IN_FLIGHT, (repeated, kills, seed)
    assert len({call.key for call in server.calls}) == calls  # a provider could bill each once
    assert repeated or wanted is not OFTEN  # else the kills hit nothing
    names = ", ".join(f"{count} x {queue} {what}".strip() for (queue, what), count in kills.items())
    print(f"{kills.total()} kills ({names}), {repeated} of {calls} calls repeated, seed {seed}")  # noqa: T201
