"""Cancel runs, also in the middle of an edit."""

from __future__ import annotations

from typing import Any

from leaderboard import jobs
from leaderboard.management.commands._runs import RunsCommand
from leaderboard.models import Run


class Command(RunsCommand):
    help = "Cancel runs now. What they finished is kept."

    def act(self, run: Run, **options: Any) -> str:
        jobs.cancel(run)
        return "cancelled."
