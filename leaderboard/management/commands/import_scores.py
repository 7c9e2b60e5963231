"""Take the values of no-reference metrics that ran elsewhere into a run."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.metrics.no_reference import no_reference_in_order
from evaluation.metrics.score_file import ScoreFileError, read_score_file
from leaderboard.contributions.importing import import_scores
from leaderboard.models import Run


class Command(BaseCommand):
    help = (
        "Take a CSV or JSON file of no-reference metrics into a finished run: pictures by sha256, "
        "or by case, repeat and trip; metric, value, version. All of it or nothing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("run", type=int, help="The number of the run.")

    def handle(self, *args: Any, **options: Any) -> None:
        run = Run.objects.filter(pk=options["run"]).first()
        if run is None:
            raise CommandError(f"there is no run {options['run']}")
        try:
            found = read_score_file(options["file"])
            import_scores(run, found)
        except ScoreFileError as error:
            raise CommandError(str(error)) from error
        names = ", ".join(no_reference_in_order(found.metrics))
        self.stdout.write(f"{len(found.rows)} values of {names} taken into run {run.pk}.")
