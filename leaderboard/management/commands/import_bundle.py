"""Import a run bundle as an external run."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.bundle import format as bundles
from evaluation.bundle.checks import DIFFERENT, Check
from leaderboard.contributions.importing import import_bundle

VERIFIED = {
    True: "verified: every number was recomputed and is equal",
    False: "not verified: numbers did not recompute",
    None: "not verified: nothing differs, but not every number could be checked",
}


class Command(BaseCommand):
    help = (
        "Import a run bundle: recomputed, marked as played elsewhere, ranked by an admin's word "
        "alone. Refused where a number differs. Safe to repeat."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--model", default="", metavar="SLUG", help="The model it is of, if not the stated one."
        )
        parser.add_argument(
            "--anyway",
            action="store_true",
            help="Import it also where numbers differ: it says so, and can never rank.",
        )
        parser.add_argument(
            "--unpublished", action="store_true", help="Keep it from the pages for now."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with bundles.read(options["file"]) as bundle:
                imported = import_bundle(
                    bundle,
                    model_slug=options["model"],
                    publish=not options["unpublished"],
                    anyway=options["anyway"],
                    look=self._look,
                )
        except (bundles.BundleError, OSError) as error:
            raise CommandError(f"{options['file']}: {error}") from error
        for note in imported.notes:
            self.stdout.write(note)
        run, words = imported.run, VERIFIED[imported.run.verified]
        done = "imported as" if imported.new else "is already here as"
        self.stdout.write(f"{options['file'].name} {done} run {run.pk} ({run}), {words}.")

    def _look(self, check: Check) -> None:
        if check.verdict == DIFFERENT:
            self.stderr.write(str(check))
