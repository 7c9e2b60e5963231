"""Write all standings and ranks anew from the stored scores."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from tqdm import tqdm

from leaderboard.models import Run, Suite
from leaderboard.models.runs import RunState
from leaderboard.standings import rebuild, refresh_experiments, refresh_ranks


class Command(BaseCommand):
    help = "Rebuild the standings of finished runs and refresh the ranks. Safe to repeat."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--run", type=int, help="Only this run (ranks are refreshed anyway).")

    def handle(self, *args: Any, **options: Any) -> None:
        runs = Run.objects.filter(state=RunState.FINISHED).select_related("suite")
        if options["run"]:
            runs = runs.filter(pk=options["run"])
        for run in tqdm(runs, desc="runs", unit="run", disable=options["verbosity"] == 0 or None):
            rebuild(run)
        for suite in Suite.objects.startable().filter(runs__isnull=False).distinct():
            refresh_ranks(suite)
        for run in runs.filter(experiment_arms__isnull=False).distinct():
            refresh_experiments(run)
