"""Bring pictures back that are gone from storage."""

from __future__ import annotations

from typing import Any

from leaderboard import jobs
from leaderboard.management.commands._runs import RunsCommand
from leaderboard.models import Run


class Command(RunsCommand):
    help = (
        "Fetch lost pictures of runs again where the provider keeps them; the chains of all "
        "others are played again from there."
    )

    def act(self, run: Run, **options: Any) -> str:
        jobs.recover(run)
        return "a worker sees to its pictures."
