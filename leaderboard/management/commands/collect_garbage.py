"""Remove stored pictures that nothing refers to any more."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand

from leaderboard import garbage


class Command(BaseCommand):
    help = "Remove pictures without a reference, and files without a row."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--hours", type=float, default=24, help="Spare what is younger.")
        parser.add_argument("--dry-run", action="store_true", help="Only count.")

    def handle(self, *args: Any, **options: Any) -> None:
        found = garbage.collect(timedelta(hours=options["hours"]), dry_run=options["dry_run"])
        verb = "would be removed" if options["dry_run"] else "removed"
        self.stdout.write(f"{found.rows} pictures and {found.files} files {verb}.")
