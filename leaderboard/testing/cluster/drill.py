"""Play a run undisturbed, and again while parts of the cluster are killed: results must be equal."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection

from leaderboard import jobs
from leaderboard.models import Call, EditingModel, Run, Score, Standing, Suite, Trip
from leaderboard.models.runs import ACTIVE_STATES, RunState
from leaderboard.testing import factories
from leaderboard.testing.cluster.parts import PARTS, Cluster

T = TypeVar("T")
SECRET = "c" * 64
#: States of a run that can be disturbed now, or that has finished.
BUSY = (*ACTIVE_STATES, RunState.FINISHED)


@dataclass
class Drill:
    """The result of a drill: the parts that were killed, and the results that differ."""

    killed: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    #: Edits that were answered more than once, because the first answer was not stored.
    requested_twice: int = 0
    #: Runs that were disturbed.
    runs: int = 0
    seconds: float = 0.0


def drill(
    cluster: Cluster,
    kills: int,
    *,
    images: int = 2,
    trips: int = 8,
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> Drill:
    """Play a run undisturbed, then again and again while parts are killed at random.

    Parts are killed only while a run is active. When a run has finished, the next one starts; if it
    is paused, this function waits. This process uses the cluster's database too.
    """
    draw, done = random.Random(seed), Drill()
    suite = factories.tiny_suite(images, trips=trips, slug="cluster")
    undisturbed = begin(suite, "undisturbed")
    wait(cluster, undisturbed)
    say("played undisturbed")
    runs, began = [patiently(cluster, partial(begin, suite, "disturbed-1"))], time.monotonic()
    parts: list[str] = []
    while len(done.killed) < kills:
        if wait(cluster, runs[-1], BUSY) == RunState.FINISHED:
            slug = f"disturbed-{len(runs) + 1}"
            runs.append(patiently(cluster, partial(begin, suite, slug)))
        parts = parts or draw.sample(PARTS, len(PARTS))  # each part once before any part twice
        name = parts.pop()
        cluster.kill(name)
        done.killed.append(name)
        say(f"kill {len(done.killed)} of {kills}: {name}")
        time.sleep(draw.uniform(0.2, 1.5))
        cluster.restart_dead()
        time.sleep(draw.uniform(0.2, 4.0))
    for run in runs:
        wait(cluster, run)
    done.seconds, done.runs = time.monotonic() - began, len(runs)
    first = results(undisturbed)
    for number, run in enumerate(runs, 1):
        second = results(run)
        done.differing += [f"{name} of {number}" for name in first if first[name] != second[name]]
        answered = Call.objects.filter(run=run, outcome=Call.ANSWERED).count()
        done.requested_twice += answered - 2 * len(second["trips"])
    return done


def begin(suite: Suite, slug: str) -> int:
    """Start a run and return its key. All runs have the same secret, and so the same seeds."""
    model, _ = EditingModel.objects.get_or_create(
        slug=slug,
        defaults={"name": slug, "editor": "noise", "options": {"sigma": 2.0}, "max_in_flight": 4},
    )
    run = Run.objects.filter(editing_model=model).first()
    return (run or jobs.start(model, suite, secret=SECRET)).pk


def wait(
    cluster: Cluster,
    run: int,
    states: Collection[str] = (RunState.FINISHED,),
    seconds: float = 3600,
) -> str:
    """Wait until the run is in one of these states; restart dead parts; return the state."""
    rows = Run.objects.filter(pk=run).values_list("state", "resume_at", "reason_text")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        cluster.restart_dead()
        state, resume_at, why = patiently(cluster, rows.get)
        if state in states:
            return str(state)
        if state not in ACTIVE_STATES and not resume_at:
            raise AssertionError(f"run {run} is {state}: {why}\n{cluster.logs()}")
        time.sleep(0.5)
    raise AssertionError(f"run {run} is {state} after {seconds:g} s: {why}\n{cluster.logs()}")


def patiently(cluster: Cluster, query: Callable[[], T], seconds: float = 300) -> T:
    """Return the result of `query`, repeated while the database is unavailable."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return query()
        except (OperationalError, InterfaceError):
            if time.monotonic() > deadline:
                raise
            connection.close()
            cluster.restart_dead()
            time.sleep(0.5)


def results(run: int) -> dict[str, list[Any]]:
    """Return a run's images, exact scores and standings in a fixed order."""
    trips = Trip.objects.filter(chain__run=run).order_by("chain__case__slug", "number")
    scores = Score.objects.filter(trip__chain__run=run)
    names = ("trip__chain__case__slug", "trip__number", "metric__name")
    standings = Standing.objects.filter(run=run).order_by("metric__name", "threshold", "scope")
    return {
        "trips": list(trips.values_list("chain__case__slug", "number", "edited", "restored")),
        "scores": [
            (*row[:3], row[3].hex())
            for row in scores.order_by(*names).values_list(*names, "distance")
        ],
        "standings": list(
            standings.values_list("metric__name", "threshold", "scope", "usable_trips", "curve")
        ),
    }
