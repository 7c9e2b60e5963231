"""Write the site as plain files."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from leaderboard.exchange.static_site import FreezeError, Freezer


class Command(BaseCommand):
    help = "Write the board, models, runs, strips and pictures as files that any host serves."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("out", type=Path, help="A new folder.")
        parser.add_argument(
            "--live-url", default="", help="Where the live site is; SITE_URL by default."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        freezer = Freezer(options["out"], live_url=options["live_url"])
        if not freezer.is_live:
            self.stderr.write(
                f"{freezer.live_url} is this machine's own name, so the pages name no live site; "
                "say it with --live-url."
            )
        try:
            found = freezer.freeze()
        except (FreezeError, OSError) as error:
            raise CommandError(str(error)) from error
        for path in found.missing:
            self.stderr.write(f"{path} did not answer; links to it say so.")
        self.stdout.write(
            f"{options['out']}: {found.pages} pages, {found.files} other files. "
            f"Try it: python -m http.server --directory {options['out']}"
        )
