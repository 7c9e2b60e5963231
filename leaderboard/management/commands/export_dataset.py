"""Write the dataset for researchers."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.content.suites import find_suite
from leaderboard.exports import datasets
from leaderboard.models import Suite


class Command(BaseCommand):
    help = "Write degraded pictures and preference pairs as JSONL, with pictures and licences."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("out", type=Path, help="A new folder.")
        parser.add_argument(
            "--suite", help="One suite, as smoke or smoke-v2; all of ours by default."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        suites = list(Suite.objects.playable().defer("definition"))
        suite = find_suite(options["suite"] or "", suites)
        if options["suite"] and suite is None:
            known = ", ".join(one.key for one in suites) or "none"
            raise CommandError(f"There is no suite {options['suite']}; there are: {known}.")
        try:
            counts = datasets.export(options["out"], suite)
        except (datasets.DatasetError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{options['out']}: {counts.degraded:,} degraded pictures and "
            f"{counts.preferences:,} preferences, {counts.votes:,} votes of {counts.runs} runs, {counts.pictures:,} files."
        )
