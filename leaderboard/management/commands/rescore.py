"""Score runs again with the metrics as they are now."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from evaluation.metrics import METRICS, metric_class
from leaderboard import jobs
from leaderboard.management.commands._runs import RunsCommand
from leaderboard.models import Run
from leaderboard.models.runs import RunState


class Command(RunsCommand):
    help = "Score runs again. Scores of other metric versions stay beside the new ones."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("runs", nargs="*", type=int, metavar="run", help="Numbers of runs.")
        parser.add_argument(
            "--suite",
            help="All runs of this suite that finished with other versions of their metrics than "
            "today's. Stopped in between, it goes on when it is called again.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if bool(options["runs"]) == bool(options["suite"]):
            raise CommandError("Name runs by their numbers, or a suite with --suite.")
        if options["suite"]:
            finished = Run.objects.filter(
                suite__slug=options["suite"], state=RunState.FINISHED, source=Run.Source.OURS
            )
            known = finished.order_by("pk").values_list("pk", "metrics")
            options["runs"] = [pk for pk, metrics in known.iterator() if _outdated(metrics)]
            if not options["runs"]:
                self.stdout.write(f"No finished run of {options['suite']} needs it.")
        super().handle(*args, **options)

    def act(self, run: Run, **options: Any) -> str:
        jobs.score_again(run)
        return "is scored again."


def _outdated(metrics: dict[str, dict[str, Any]]) -> bool:
    """Whether any of a run's metrics has another version by now."""
    return any(
        pinned.get("version", metric_class(name).version) != metric_class(name).version
        for name, pinned in metrics.items()
        if name in METRICS
    )
