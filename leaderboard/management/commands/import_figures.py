"""Import a table of published figures."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from leaderboard.exchange.published_figures import COLUMNS, FiguresError, import_figures


class Command(BaseCommand):
    help = f"Import figures that others published. Columns: {', '.join(COLUMNS)}. All or nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("csv", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            new, replaced = import_figures(options["csv"])
        except (FiguresError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{new} figures are new, {replaced} were replaced.")
