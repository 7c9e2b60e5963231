"""Import the published table of edit-converge-bench as a suite of its own."""

from __future__ import annotations

import datetime
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from leaderboard.exchange import edit_converge_bench


class Command(BaseCommand):
    help = "Import the results.csv of edit-converge-bench: published elsewhere, never ranked. Repeatable."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("csv", type=Path)
        parser.add_argument(
            "--url", default=edit_converge_bench.SOURCE, help="Where it was published."
        )
        parser.add_argument(
            "--date",
            type=datetime.date.fromisoformat,
            default=edit_converge_bench.PUBLISHED_ON,
            help="When, as 2026-02-01.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            published = edit_converge_bench.read(options["csv"])
        except (edit_converge_bench.TableError, OSError) as error:
            raise CommandError(str(error)) from error
        for remark in published.remarks:
            self.stdout.write(remark)
        suite, new = edit_converge_bench.store(published, options["url"], options["date"])
        done = "imported" if new else "already here"
        chains = sum(len(played) for played in published.chains.values())
        self.stdout.write(
            f"{suite}: {done}, {len(published.models)} models, {suite.cases.count()} cases, "
            f"{chains} chains. {suite.get_absolute_url()}"
        )
