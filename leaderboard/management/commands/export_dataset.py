"""Write the dataset for researchers."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from leaderboard.board.rows import suite_key
from leaderboard.exchange import datasets
from leaderboard.models import Suite


class Command(BaseCommand):
    help = "Write degraded pictures and preference pairs as JSONL, with pictures and licences."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("out", type=Path, help="A new folder.")
        parser.add_argument("--suite", help="One suite, as smoke-v1; all of ours by default.")

    def handle(self, *args: Any, **options: Any) -> None:
        suites = {suite_key(s): s for s in Suite.objects.playable().defer("definition")}
        if options["suite"] and options["suite"] not in suites:
            known = ", ".join(suites) or "none"
            raise CommandError(f"There is no suite {options['suite']}; there are: {known}.")
        try:
            counts = datasets.export(options["out"], suites.get(options["suite"] or ""))
        except (datasets.DatasetError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{options['out']}: {counts.degraded:,} degraded pictures and "
            f"{counts.preferences:,} preferences of {counts.runs} runs, {counts.pictures:,} files."
        )
