"""Resume paused, failed or cancelled runs where they stopped."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from leaderboard import jobs
from leaderboard.management.commands._runs import RunsCommand
from leaderboard.models import Run


class Command(RunsCommand):
    help = "Resume runs; with --broken also play chains again that ended early."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--broken",
            action="store_true",
            help="Play chains again that failed, were lost, refused or blank.",
        )

    def act(self, run: Run, **options: Any) -> str:
        if options["broken"]:
            return f"{jobs.play_again(run)} chains are played again."
        jobs.resume(run)
        return "goes on."
