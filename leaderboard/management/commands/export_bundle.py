"""Write a run's bundle: a zip that others can check with `convergebench verify`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.bundle.format import BundleError
from leaderboard.exports import bundles
from leaderboard.models import Run


class Command(BaseCommand):
    help = "Write a finished run as one zip: suite, prompts, versions, hashes, scores, pictures."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int, help="The run's number.")
        parser.add_argument("out", type=Path, nargs="?", help="The zip file; run-<number>.zip.")
        parser.add_argument(
            "--no-pictures", action="store_true", help="Leave the pictures out: numbers alone."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        run = Run.objects.select_related("suite", "editing_model").filter(pk=options["run"]).first()
        if run is None:
            raise CommandError(f"There is no run {options['run']}.")
        out = options["out"] or Path(f"run-{run.pk}.zip")
        part = out.with_name(f".{out.name}.part")
        try:
            bundles.write(run, part, pictures=not options["no_pictures"])
            part.replace(out)
        except (BundleError, OSError) as error:
            raise CommandError(str(error)) from error
        finally:
            part.unlink(missing_ok=True)
        self.stdout.write(f"{out}: {out.stat().st_size:,} bytes, {run}")
