"""Write a backup of the site."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from leaderboard.operation.backup import BackupError, backup


class Command(BaseCommand):
    help = "Write the database into an empty folder, and copy images if --images is given."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="The folder to create.")
        parser.add_argument(
            "--images",
            type=Path,
            metavar="FOLDER",
            help="Copy new images to this folder, too. Without this option, back up the images "
            "separately.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            counted = backup(options["folder"], options["images"])
        except BackupError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(
            f"{options['folder']}: the database is saved; it refers to {counted.images:,} images"
            + (f", {counted.copied:,} of them copied now." if options["images"] else ".")
        )
        if counted.missing:
            raise CommandError(
                f"{counted.missing:,} images are lost: see `manage.py storage verify`"
            )
