"""The same run twice, once undisturbed and once while everything is killed: equal to the byte."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError, connection

from evaluation import jobs
from leaderboard.models import Call, EditingModel, Run, Score, Standing, Suite, Trip
from leaderboard.models.runs import RunState
from leaderboard.testing import factories
from leaderboard.testing.cluster.parts import PARTS, Cluster

SECRET = "c" * 64


@dataclass
class Drill:
    """What came of it: who was killed, and whether anything differs."""

    killed: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    #: Edits that were answered more than once: the answer was on its way when it was killed.
    asked_twice: int = 0
    seconds: float = 0.0


def drill(
    cluster: Cluster,
    kills: int,
    *,
    pictures: int = 2,
    trips: int = 8,
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> Drill:
    """Play a run in peace, and the same again while parts die at random.

    This process works on the cluster's database too.
    """
    draw, done = random.Random(seed), Drill()
    suite = factories.tiny_suite(pictures, trips=trips, slug="cluster")
    calm = begin(suite, "calm")
    wait(cluster, calm)
    say("played in peace")
    stormy, began = begin(suite, "stormy"), time.monotonic()
    parts: list[str] = []
    while len(done.killed) < kills:
        parts = parts or draw.sample(PARTS, len(PARTS))  # everybody before anybody twice
        name = parts.pop()
        cluster.kill(name)
        done.killed.append(name)
        say(f"kill {len(done.killed)} of {kills}: {name}")
        time.sleep(draw.uniform(0.2, 1.5))
        cluster.tend()
        time.sleep(draw.uniform(0.2, 1.0))
    wait(cluster, stormy)
    done.seconds = time.monotonic() - began
    first, second = told(calm), told(stormy)
    done.differing = [name for name in first if first[name] != second[name]]
    answered = Call.objects.filter(run=stormy, outcome=Call.ANSWERED).count()
    done.asked_twice = answered - 2 * len(second["trips"])
    return done


def begin(suite: Suite, slug: str) -> int:
    """A run whose seeds are drawn by the same secret as any other's here: its number."""
    model = EditingModel.objects.create(
        slug=slug, name=slug, editor="noise", options={"sigma": 2.0}, max_in_flight=4
    )
    return jobs.start(model, suite, secret=SECRET).pk


def wait(cluster: Cluster, run: int, seconds: float = 3600) -> None:
    """Until the run has finished, starting again whoever dies meanwhile."""
    deadline = time.monotonic() + seconds
    state = ""
    while time.monotonic() < deadline:
        cluster.tend()
        try:
            state = Run.objects.values_list("state", flat=True).get(pk=run)
        except DatabaseError:
            connection.close()
        if state == RunState.FINISHED:
            return
        time.sleep(0.5)
    raise AssertionError(f"run {run} is {state} after {seconds:g} s\n{cluster.logs()}")


def told(run: int) -> dict[str, list[Any]]:
    """What a run says, in an order of its own: pictures, scores to the bit, standings."""
    trips = Trip.objects.filter(chain__run=run).order_by("chain__case__slug", "number")
    scores = Score.objects.filter(trip__chain__run=run)
    names = ("trip__chain__case__slug", "trip__number", "metric__name")
    standings = Standing.objects.filter(run=run).order_by("metric__name", "level", "scope")
    return {
        "trips": list(trips.values_list("chain__case__slug", "number", "edited", "restored")),
        "scores": [
            (*row[:3], row[3].hex())
            for row in scores.order_by(*names).values_list(*names, "distance")
        ],
        "standings": list(
            standings.values_list("metric__name", "level", "scope", "usable_trips", "curve")
        ),
    }
