"""Restore a backup."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from leaderboard.operation.backup import BackupError, restore


class Command(BaseCommand):
    help = (
        "Bring a backup back into an empty database, migrate it, and put back images that are "
        "gone. Stop web and workers first; with SECRET_KEY and FIELD_KEYS of the site that was."
    )
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="What `backup` wrote.")
        parser.add_argument(
            "--images", type=Path, metavar="FOLDER", help="Where `backup --images` put them."
        )
        parser.add_argument("--force", action="store_true", help="Replace what the site has.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            counted = restore(options["folder"], options["images"], force=options["force"])
        except BackupError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(
            f"The database is back; {counted.images - counted.missing:,} of {counted.images:,} "
            f"images are in storage, {counted.copied:,} of them put back now."
        )
        if counted.missing:
            raise CommandError(
                f"{counted.missing:,} images are missing: give --images, or put the bucket back "
                "and see `manage.py storage verify`"
            )
