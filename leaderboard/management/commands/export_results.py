"""Write results to files: a run's bundle, or the dataset for researchers."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.bundle.document import BundleError
from evaluation.content.suites import find_suite
from leaderboard.exports import bundles, datasets
from leaderboard.models import Run, Suite


class Command(BaseCommand):
    help = "Write a run's bundle, or the dataset for researchers."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="action", required=True)
        bundle = actions.add_parser(
            "bundle",
            help="Write a finished run as one zip with suite, prompts, versions, hashes, scores "
            "and images. `convergebench verify` checks it.",
        )
        bundle.add_argument("run", type=int, help="The run's number.")
        bundle.add_argument("out", type=Path, nargs="?", help="Default: run-<number>.zip.")
        bundle.add_argument(
            "--no-images", action="store_true", help="Write the numbers without images."
        )
        dataset = actions.add_parser(
            "dataset",
            help="Write degraded images and preference pairs as JSONL, with images and licences.",
        )
        dataset.add_argument("out", type=Path, help="A new folder.")
        dataset.add_argument(
            "--suite", help="One suite, such as smoke or smoke-v2. Default: all suites."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["action"] == "bundle":
                self._bundle(options["run"], options["out"], images=not options["no_images"])
            else:
                self._dataset(options["out"], options["suite"])
        except (BundleError, datasets.DatasetError, OSError) as error:
            raise CommandError(str(error)) from error

    def _bundle(self, number: int, out: Path | None, *, images: bool) -> None:
        run = Run.objects.select_related("suite", "editing_model").filter(pk=number).first()
        if run is None:
            raise CommandError(f"There is no run {number}.")
        out = out or Path(f"run-{run.pk}.zip")
        part = out.with_name(f".{out.name}.part")
        try:
            bundles.write(run, part, images=images)
            part.replace(out)
        finally:
            part.unlink(missing_ok=True)
        self.stdout.write(f"{out}: {out.stat().st_size:,} bytes, {run}")

    def _dataset(self, out: Path, name: str | None) -> None:
        suites = list(Suite.objects.playable().defer("definition"))
        suite = find_suite(name or "", suites)
        if name and suite is None:
            keys = ", ".join(row.key for row in suites) or "none"
            raise CommandError(f"There is no suite {name}; choose one of {keys}.")
        counts = datasets.export(out, suite)
        self.stdout.write(
            f"{out}: {counts.degraded:,} degraded images and "
            f"{counts.preferences:,} preferences, {counts.votes:,} votes of {counts.runs} runs, "
            f"{counts.images:,} files."
        )
