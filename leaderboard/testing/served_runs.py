"""Runs of a model behind a local endpoint, step by step: started, played, scored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evaluation.testing.editing_server import EditingServer, Reply
from leaderboard import jobs
from leaderboard.jobs.play_job import PlayJob
from leaderboard.jobs.playing.events import ChainInPlay
from leaderboard.jobs.writer import RunWriter
from leaderboard.models import Chain, EditingModel, Run
from leaderboard.testing import factories

if TYPE_CHECKING:
    import pytest


def served(server: EditingServer, **fields: Any) -> EditingModel:
    """The model that the server stands for."""
    options = {"url": server.url, "contract": "huggingface", "timeout": 60}
    return factories.editing_model("served", "endpoint", options=options, **fields)


def started(server: EditingServer, trips: int = 3, pictures: int = 2, **fields: Any) -> Run:
    """A queued run of two chains for each picture."""
    budget = {name: fields.pop(name) for name in list(fields) if name.startswith("budget")}
    suite = factories.tiny_suite(pictures, trips=trips)
    return jobs.start(served(server, **fields), suite, **budget)


def played(run: Run) -> Run:
    jobs.play(run.pk)
    run.refresh_from_db()
    return run


def scored(run: Run) -> Run:
    jobs.score(run.pk)
    run.refresh_from_db()
    return run


def works_of(one: RunWriter, most: int, *, spare: bool = False) -> list[ChainInPlay]:
    """So many chains of the writer's run, claimed for it."""
    pairs = one.run.suite.core.pair_by_slug
    works = [
        ChainInPlay(
            chain, pairs[chain.case.pair_slug], chain.case.picture.stored, 1, lambda number, step: 0
        )
        for chain in Chain.objects.claim(one.run, one.token, most, spare=spare)
        if chain.case.picture.stored
    ]
    one.take(works)
    return works


def error(status: int, headers: dict[str, str] | None = None, body: bytes = b"{}") -> Reply:
    """What the server answers instead of a picture."""
    return status, {"Content-Type": "application/json", **(headers or {})}, body


def interfere(method: str, action: Callable[[PlayJob], bool], patch: pytest.MonkeyPatch) -> None:
    """Act before every call of a play job's method, until `action` says that it is done.

    That is how a run is disturbed while it is played: a test has one connection.
    """
    original = getattr(PlayJob, method)
    done: list[bool] = []

    def wrapped(job: PlayJob, *args: Any) -> Any:
        if not done and action(job):
            done.append(True)
        return original(job, *args)

    patch.setattr(PlayJob, method, wrapped)
