"""Make a sealed twin of a suite: the same kinds of edits on secret images."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.content.suites import SuiteError, find_suite
from leaderboard.content.sealing import seal
from leaderboard.models import Suite


class Command(BaseCommand):
    help = (
        "Make a sealed twin of a suite from a folder with images, images.json and (optionally) "
        "wordings.json. The twin's images and prompts are never shown, only its results."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("suite", help="The suite: standard, or standard-v1 for one version.")
        parser.add_argument("folder", type=Path)
        parser.add_argument(
            "--narrow",
            action="store_true",
            help="Allow a suite with few images, pairs or categories.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        suite = find_suite(options["suite"], Suite.objects.playable())
        if suite is None:
            raise CommandError(f"there is no suite {options['suite']!r} here")
        try:
            twin = seal(suite.core, options["folder"], narrow=options["narrow"])
        except SuiteError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(
            f"{twin.key}: {twin.cases.count()} cases on {twin.images.count()} images. "
            f"Play it with: manage.py start_run MODEL --suite {twin.key}"
        )
