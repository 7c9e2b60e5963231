"""Runs of a model behind a local endpoint: start, play and score them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evaluation.testing.editing_server import EditingServer, Reply
from leaderboard import jobs
from leaderboard.jobs.database_store import DatabaseStore
from leaderboard.models import EditingModel, Run
from leaderboard.testing import factories

if TYPE_CHECKING:
    import pytest


def served(server: EditingServer, **fields: Any) -> EditingModel:
    """Create the model whose endpoint is the server."""
    options = {"url": server.url, "contract": "huggingface", "timeout": 60}
    return factories.editing_model("served", "endpoint", options=options, **fields)


def started(server: EditingServer, trips: int = 3, images: int = 2, **fields: Any) -> Run:
    """Start a run of two chains for each image."""
    budget = {name: fields.pop(name) for name in list(fields) if name.startswith("budget")}
    suite = factories.tiny_suite(images, trips=trips)
    return jobs.start(served(server, **fields), suite, **budget)


def played(run: Run) -> Run:
    jobs.play(run.pk)
    run.refresh_from_db()
    return run


def scored(run: Run) -> Run:
    jobs.score(run.pk)
    run.refresh_from_db()
    return run


def error(status: int, headers: dict[str, str] | None = None, body: bytes = b"{}") -> Reply:
    """Return an answer of a server that has an error instead of an image."""
    return status, {"Content-Type": "application/json", **(headers or {})}, body


def interfere(
    method: str, action: Callable[[DatabaseStore], bool], patch: pytest.MonkeyPatch
) -> None:
    """Call `action` before each call of a store's method, until `action` returns True.

    This disturbs a run while it is played. `action` runs under the store's lock, because all
    threads of the run share one connection to the database.
    """
    original = getattr(DatabaseStore, method)
    done: list[bool] = []

    def wrapped(store: DatabaseStore, *args: Any, **options: Any) -> Any:
        with store.lock:
            if not done and action(store):
                done.append(True)
        return original(store, *args, **options)

    patch.setattr(DatabaseStore, method, wrapped)
