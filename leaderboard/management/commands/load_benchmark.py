"""Load the content that ships with the project."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from evaluation.content import catalog
from leaderboard.content import loading
from leaderboard.published_figures import import_figures


class Command(BaseCommand):
    help = "Load source images, edit pairs, editing models and suites. Safe to repeat."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--suites", nargs="*", help="Only these suites and their images (all by default)."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        loaded = loading.Loaded()
        named = options["suites"]
        suites = [suite for suite in catalog.suites() if named is None or suite.slug in named]
        if unknown := set(named or ()) - {suite.slug for suite in suites}:
            raise CommandError(
                f"no suite named {', '.join(sorted(unknown))} ships with the project"
            )
        loading.load_edit_pairs(loaded)
        loading.load_editing_models(loaded)
        wanted = {image.slug for suite in suites for image in suite.images}
        sources = [
            source for source in catalog.source_images() if named is None or source.slug in wanted
        ]
        quiet = options["verbosity"] == 0
        for source in tqdm(sources, desc="source images", unit="image", disable=quiet or None):
            loading.load_source_image(source, loaded)
        for suite in tqdm(suites, desc="suites", unit="suite", disable=quiet or None):
            loading.load_suite(suite, loaded)
        new, _ = import_figures(catalog.folder() / "published_figures.csv")
        if new:
            loaded.new["published figures"] = new
        if loaded.new and not quiet:
            summary = ", ".join(f"{number} {what}" for what, number in loaded.new.items())
            self.stdout.write(f"New: {summary}.")
        for name, reason in loaded.refused.items():
            self.stderr.write(f"Refused {name}: {reason}")
