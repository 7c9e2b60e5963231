"""What the commands on runs share: which runs, and one line for each."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from leaderboard.jobs import CannotMove
from leaderboard.models import Run


class RunsCommand(BaseCommand):
    """Does one thing to each run named; a run that cannot be moved does not stop the others."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("runs", nargs="+", type=int, metavar="run", help="Numbers of runs.")

    def handle(self, *args: Any, **options: Any) -> None:
        runs = Run.objects.select_related("editing_model", "suite").in_bulk(options["runs"])
        refused = [f"There is no run {pk}." for pk in options["runs"] if pk not in runs]
        for run in runs.values():
            try:
                self.stdout.write(f"Run {run.pk}: {self.act(run, **options)}")
            except CannotMove as error:
                refused.append(f"Run {run.pk}: {error}")
        if refused:
            raise CommandError(" ".join(refused))

    def act(self, run: Run, **options: Any) -> str:
        """Do it; what was done, in words."""
        raise NotImplementedError
