"""Restore a backup."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from leaderboard.operation.backup import BackupError, restore


class Command(BaseCommand):
    help = (
        "Restore a backup into an empty database, migrate it, and copy missing "
        "images back. Stop web and workers first. Use the SECRET_KEY and "
        "FIELD_KEYS of the old site."
    )
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="The folder that `backup` wrote.")
        parser.add_argument(
            "--images", type=Path, metavar="FOLDER", help="The folder of `backup --images`."
        )
        parser.add_argument("--force", action="store_true", help="Replace the site's database.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            counted = restore(options["folder"], options["images"], force=options["force"])
        except BackupError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(
            f"The database is restored; {counted.images - counted.missing:,} of {counted.images:,} "
            f"images are in storage, {counted.copied:,} of them copied now."
        )
        if counted.missing:
            raise CommandError(
                f"{counted.missing:,} images are missing: give --images, or put the bucket back "
                "and see `manage.py storage verify`"
            )
