"""Lay a paper's tables beside ours."""

from __future__ import annotations

from argparse import ArgumentParser
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.errors import UserFacingError
from leaderboard.exchange.reproduction import needs, writing
from leaderboard.exchange.reproduction.comparisons import COMPARISONS
from leaderboard.exchange.reproduction.facts import PAPERS, Facts, read
from leaderboard.models import Suite


class Command(BaseCommand):
    help = (
        "Write a paper's tables beside ours, from the runs that are here. With --start what lacks "
        "is queued, with --play it is played here and now; call it again as often as you like."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paper", choices=PAPERS)
        parser.add_argument(
            "--out", type=Path, required=True, help="A new folder, or that of an earlier call."
        )
        parser.add_argument(
            "--model", action="append", default=[], help="Only this editing model, by its slug."
        )
        parser.add_argument("--suite", default="", help="Another suite than the paper's.")
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--start", action="store_true", help="Queue the runs that lack.")
        how.add_argument("--play", action="store_true", help="Play and score them in this process.")
        parser.add_argument("--budget-usd", type=Decimal, help="What each new run may cost.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            facts = read(options["paper"])
            suite = needs.suite_of(facts, options["suite"])
            found = needs.needs(facts, suite, options["model"])
            if options["start"] or options["play"]:
                self._start(found, suite, options)
                found = needs.needs(facts, suite, options["model"])
            self._say(facts, found)
            tables = COMPARISONS[facts.name](facts, found, suite)
            writing.write(facts, suite, found, tables, options["out"])
        except (UserFacingError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{options['out']}: {writing.TEXT}, {writing.PAGE}, tables/*.csv.")

    def _start(self, found: list[needs.Need], suite: Suite, options: dict[str, Any]) -> None:
        runs = needs.start(found, suite, options["budget_usd"])
        self.stdout.write(f"{len(runs)} runs started.")
        if options["play"]:
            # Also what an earlier call left in the middle.
            begun = [need.run for need in found if need.run and not need.done]
            for run in [*begun, *runs]:
                needs.play(run)

    def _say(self, facts: Facts, found: list[needs.Need]) -> None:
        for need in found:
            takes = "" if need.run else f"; it would take {need.estimate}"
            self.stdout.write(f"{need.called or need.model.slug}: {need.words}{takes}.")
