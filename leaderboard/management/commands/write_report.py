"""Write a paper on a suite's results."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.errors import UserFacingError
from leaderboard.board.query import find_suite
from leaderboard.board.rows import suites
from leaderboard.exchange.paper import writing


class Command(BaseCommand):
    help = (
        "Write a suite's results as a paper: LaTeX, HTML, figures and tables from its standings, "
        "and a PDF where a TeX is there."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("suite", help="lite, or lite-v2 for one version.")
        parser.add_argument(
            "--out", type=Path, required=True, help="A new folder, or that of an earlier report."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        known = suites()
        suite = find_suite(options["suite"], known)
        if suite is None:
            names = ", ".join(suite.key for suite in known) or "none"
            raise CommandError(f"There is no suite {options['suite']!r}; there are {names}.")
        try:
            written = writing.write(suite, options["out"])
        except (UserFacingError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{written.folder}: {writing.TEX}, {writing.PAGE}, {written.tables} tables; "
            f"{written.pdf}."
        )
