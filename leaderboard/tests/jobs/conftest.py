"""A local endpoint for the jobs to call, and jobs that wait for nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evaluation.retries import Limits
from evaluation.testing.editing_server import EditingServer
from leaderboard.jobs import play_job
from leaderboard.jobs.playing import chain_player


@pytest.fixture
def quick(local: None, quick_metrics: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Play jobs in this process: short pauses, and metrics that need no weights."""
    monkeypatch.setattr(chain_player, "LIMITS", Limits(attempts=5, first_wait=0.01))
    monkeypatch.setattr(play_job, "TICK", 0.02)


@pytest.fixture
def server() -> Iterator[EditingServer]:
    with EditingServer(latency=0.005) as server:
        yield server
