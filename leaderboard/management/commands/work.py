"""Serve one queue until stopped."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from evaluation.net.large_answers import limit_malloc_arenas
from leaderboard.job_queue import EDITS, GPU, PROBES
from leaderboard.jobs.worker import RunWorker, preload
from leaderboard.operation.scoring_packages import wait_until_ready

WHEN_PREPARED = "--when-prepared"


class Command(BaseCommand):
    help = (
        "Work on one queue: edits (calls to models), gpu (local models and scores) or "
        "probes (tests of submitted endpoints)."
    )

    # System checks import every page; the web server runs them.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("queue", choices=(EDITS, GPU, PROBES))
        parser.add_argument(
            WHEN_PREPARED,
            action="store_true",
            help="Wait until `prepare_scoring` has ended, if `manage.py up` runs it.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["when_prepared"]:
            wait_until_ready()
            # This process started without the packages; a new process can import them.
            command = [argument for argument in sys.argv if argument != WHEN_PREPARED]
            os.execv(sys.executable, [sys.executable, *command])  # noqa: S606 -- our own interpreter
        limit_malloc_arenas()
        preload(options["queue"])
        RunWorker(options["queue"]).work(logging_level="WARNING")
