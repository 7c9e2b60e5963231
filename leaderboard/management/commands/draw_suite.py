"""Draw a contact sheet of a suite, for review before freezing."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from evaluation.content import catalog
from evaluation.content.suites import SuiteError, find_suite
from evaluation.editors.contact_sheet import sheet, suite_sheet
from leaderboard.models import Suite


class Command(BaseCommand):
    help = (
        "Writes one PNG per suite: every case with its annotations, as the reference editors play "
        "it. No drawing may cover what it should not."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("suite", nargs="+", help="standard, or standard-v1 for one version.")
        parser.add_argument(
            "--to", type=Path, default=Path("var/contact-sheets"), help="The folder to write to."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        options["to"].mkdir(parents=True, exist_ok=True)
        for name in options["suite"]:
            path = options["to"] / f"{name}.png"
            path.unlink(missing_ok=True)
            self._draw(name).save(path)
            self.stdout.write(f"{path}")

    def _draw(self, name: str) -> Any:
        # Before the first `migrate` there are only the shipped suites.
        migrated = Suite._meta.db_table in connection.introspection.table_names()
        row = find_suite(name, Suite.objects.playable()) if migrated else None
        if row is None:
            try:
                return suite_sheet(catalog.suite(name))
            except SuiteError as error:
                raise CommandError(str(error)) from None
        pictures = {p.slug: p.stored for p in row.pictures.select_related("stored") if p.stored}
        return sheet(row.core, lambda picture: pictures[picture.slug].read().image)
