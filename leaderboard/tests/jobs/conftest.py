"""A local endpoint for jobs to call, and jobs without long waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evaluation.play import player
from evaluation.play.retries import Limits
from evaluation.testing.editing_server import EditingServer
from leaderboard.jobs import database_store, play_job


@pytest.fixture
def quick(local: None, quick_metrics: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Play jobs in this process: short pauses, and metrics that need no weights."""
    monkeypatch.setattr(play_job, "LIMITS", Limits(attempts=5, first_wait=0.01))
    monkeypatch.setattr(player, "TICK", 0.02)
    monkeypatch.setattr(database_store, "WAIT_SECONDS", 0.02)


@pytest.fixture
def server() -> Iterator[EditingServer]:
    with EditingServer(latency=0.005) as server:
        yield server
