"""Keep the answers of ended runs for less."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import filesizeformat

from leaderboard.models import Run
from leaderboard.models.runs import RunState
from leaderboard.operation import packing


class Command(BaseCommand):
    help = (
        "Keep answers of finished runs as lossless WebP of the same pixels where that is smaller, "
        "and move what nobody looks at to cold storage where there is one. Workers do it by night "
        "once a run is PACK_AFTER_DAYS old."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("runs", nargs="*", type=int, metavar="run", help="All by default.")
        parser.add_argument("--dry-run", action="store_true", help="Only say what it would free.")

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = Run.objects.filter(state=RunState.FINISHED).order_by("pk")
        if options["runs"]:
            chosen = chosen.filter(pk__in=options["runs"])
            if missing := set(options["runs"]) - {run.pk for run in chosen}:
                raise CommandError(f"No finished run {', '.join(map(str, sorted(missing)))}.")
        total = packing.Packed()
        for run in chosen:
            total += packing.pack_run(run, dry_run=options["dry_run"])
        freed = filesizeformat(total.freed).replace("\u00a0", " ")
        self.stdout.write(
            f"{total.pictures:,} pictures: {total.packed:,} packed, {freed} freed, "
            f"{total.moved:,} moved to cold storage."
        )
