"""The same run undisturbed and while everything is killed, again and again: equal to the byte."""

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
#: Of a run that can be disturbed, and of one that no longer can.
BUSY = (*ACTIVE_STATES, RunState.FINISHED)


@dataclass
class Drill:
    """What came of it: who was killed, and whether anything differs."""

    killed: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    #: Edits that were answered more than once: the answer was on its way when it was killed.
    asked_twice: int = 0
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
    """Play a run in peace, and the same again, as often as it takes, while parts die at random.

    Nobody is killed while there is nothing to disturb: a run that is over is followed by the next
    one, and a run that rests is waited for. This process works on the cluster's database too.
    """
    draw, done = random.Random(seed), Drill()
    suite = factories.tiny_suite(images, trips=trips, slug="cluster")
    calm = begin(suite, "calm")
    wait(cluster, calm)
    say("played in peace")
    storms, began = [patiently(cluster, partial(begin, suite, "stormy-1"))], time.monotonic()
    parts: list[str] = []
    while len(done.killed) < kills:
        if wait(cluster, storms[-1], BUSY) == RunState.FINISHED:
            slug = f"stormy-{len(storms) + 1}"
            storms.append(patiently(cluster, partial(begin, suite, slug)))
        parts = parts or draw.sample(PARTS, len(PARTS))  # everybody before anybody twice
        name = parts.pop()
        cluster.kill(name)
        done.killed.append(name)
        say(f"kill {len(done.killed)} of {kills}: {name}")
        time.sleep(draw.uniform(0.2, 1.5))
        cluster.tend()
        time.sleep(draw.uniform(0.2, 4.0))
    for stormy in storms:
        wait(cluster, stormy)
    done.seconds, done.runs = time.monotonic() - began, len(storms)
    first = told(calm)
    for number, stormy in enumerate(storms, 1):
        second = told(stormy)
        done.differing += [f"{name} of {number}" for name in first if first[name] != second[name]]
        answered = Call.objects.filter(run=stormy, outcome=Call.ANSWERED).count()
        done.asked_twice += answered - 2 * len(second["trips"])
    return done


def begin(suite: Suite, slug: str) -> int:
    """A run whose seeds are drawn by the same secret as any other's here: its number."""
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
    """The run's state once it is one of these, starting again whoever dies meanwhile."""
    rows = Run.objects.filter(pk=run).values_list("state", "resume_at", "reason_text")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        cluster.tend()
        state, resume_at, why = patiently(cluster, rows.get)
        if state in states:
            return str(state)
        if state not in ACTIVE_STATES and not resume_at:
            raise AssertionError(f"run {run} is {state}: {why}\n{cluster.logs()}")
        time.sleep(0.5)
    raise AssertionError(f"run {run} is {state} after {seconds:g} s: {why}\n{cluster.logs()}")


def patiently(cluster: Cluster, ask: Callable[[], T], seconds: float = 300) -> T:
    """What `ask` returns, asked again while the database is away."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except (OperationalError, InterfaceError):
            if time.monotonic() > deadline:
                raise
            connection.close()
            cluster.tend()
            time.sleep(0.5)


def told(run: int) -> dict[str, list[Any]]:
    """What a run says, in an order of its own: images, scores to the bit, standings."""
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
