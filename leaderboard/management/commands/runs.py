"""Control runs: pause, resume, cancel, score again, recompute results by metric."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from evaluation.metrics import METRICS, metric_class
from leaderboard import jobs
from leaderboard.models import Run, Suite
from leaderboard.models.runs import RunState
from leaderboard.standings import rebuild, refresh_experiments, refresh_ranks


class Command(BaseCommand):
    help = (
        "Change runs, named by number. If one of them cannot be changed, the other runs still are."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="action", required=True)
        pause = actions.add_parser("pause", help="Make no more calls; keep the answers in flight.")
        pause.add_argument("--reason", default="", help="Shown on the run's page.")
        resume = actions.add_parser("resume", help="Continue where the run stopped.")
        resume.add_argument(
            "--broken",
            action="store_true",
            help="Play failed and lost chains again.",
        )
        cancel = actions.add_parser("cancel", help="End now; finished chains are kept.")
        rescore = actions.add_parser(
            "rescore", help="Score again. Scores of other metric versions are kept."
        )
        rescore.add_argument(
            "--suite",
            help="Score all runs of this suite that finished with older metric versions. Repeat "
            "the command to continue after an interruption.",
        )
        standings = actions.add_parser(
            "standings", help="Recompute results by metric, and ranks, from the stored scores."
        )
        for action in (pause, resume, cancel):
            action.add_argument("runs", nargs="+", type=int, metavar="run")
        for action in (rescore, standings):
            action.add_argument("runs", nargs="*", type=int, metavar="run")

    def handle(self, *args: Any, **options: Any) -> None:
        runs, action = options["runs"], options["action"]
        if action == "pause":
            self._each(runs, lambda run: _pause(run, options["reason"]), "paused.")
        elif action == "resume" and options["broken"]:
            self._each(runs, jobs.play_again, "{} chains are played again.")
        elif action == "resume":
            self._each(runs, jobs.resume, "continues.")
        elif action == "cancel":
            self._each(runs, jobs.cancel, "cancelled.")
        elif action == "rescore":
            self._rescore(runs, options["suite"])
        else:
            self._rebuild(runs, quiet=options["verbosity"] == 0)

    def _each(self, numbers: Iterable[int], act: Callable[[Run], object], done: str) -> None:
        """Call `act` for each run and print `done`, in which {} is the result of `act`."""
        runs = Run.objects.select_related("editing_model", "suite").in_bulk(list(numbers))
        refused = [f"There is no run {pk}." for pk in numbers if pk not in runs]
        for run in runs.values():
            try:
                self.stdout.write(f"Run {run.pk}: {done.format(act(run))}")
            except jobs.NotAllowed as error:
                refused.append(f"Run {run.pk}: {error}")
        if refused:
            raise CommandError(" ".join(refused))

    def _rescore(self, runs: list[int], suite: str | None) -> None:
        if bool(runs) == bool(suite):
            raise CommandError("Name runs by their numbers, or a suite with --suite.")
        if suite:
            finished = Run.objects.filter(
                suite__slug=suite, state=RunState.FINISHED, source=Run.Source.OURS
            )
            rows = finished.order_by("pk").values_list("pk", "metrics")
            runs = [pk for pk, metrics in rows.iterator() if _is_outdated(metrics)]
            if not runs:
                self.stdout.write(f"No finished run of {suite} needs to be scored again.")
        self._each(runs, jobs.score_again, "is scored again.")

    def _rebuild(self, numbers: list[int], *, quiet: bool) -> None:
        """Rebuild the standings of these (or all) finished runs; then refresh all ranks."""
        runs = Run.objects.filter(state=RunState.FINISHED).select_related("suite")
        if numbers:
            runs = runs.filter(pk__in=numbers)
        for run in tqdm(runs, desc="runs", unit="run", disable=quiet or None):
            rebuild(run)
        for suite in Suite.objects.startable().filter(runs__isnull=False).distinct():
            refresh_ranks(suite)
        for run in runs.filter(experiment_arms__isnull=False).distinct():
            refresh_experiments(run)


def _pause(run: Run, reason: str) -> None:
    if not jobs.pause(run, "person", reason):
        raise jobs.NotAllowed(f"A {run.get_state_display().lower()} run cannot be paused.")


def _is_outdated(metrics: dict[str, dict[str, Any]]) -> bool:
    """Return True if any of a run's metrics has another version now."""
    return any(
        pinned.get("version", version := metric_class(name)().running_version) != version
        for name, pinned in metrics.items()
        if name in METRICS
    )
