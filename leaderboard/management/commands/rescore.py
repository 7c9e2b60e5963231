"""Score runs again with the metrics as they are now."""

from __future__ import annotations

from typing import Any

from evaluation import jobs
from leaderboard.management.commands._runs import RunsCommand
from leaderboard.models import Run


class Command(RunsCommand):
    help = "Score runs again. Scores of other metric versions stay beside the new ones."

    def act(self, run: Run, **options: Any) -> str:
        jobs.score_again(run)
        return "is scored again."
