"""Pause runs: no more calls are made, what is in flight is kept."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from leaderboard import jobs
from leaderboard.management.commands._runs import RunsCommand
from leaderboard.models import Run


class Command(RunsCommand):
    help = "Pause runs until somebody resumes them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--reason", default="", help="Shown on the run's page.")

    def act(self, run: Run, **options: Any) -> str:
        if not jobs.pause(run, "person", options["reason"]):
            raise jobs.CannotMove(f"A {run.get_state_display().lower()} run cannot be paused.")
        return "paused."
