"""Serve one queue until told to stop."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from evaluation.http.large_answers import give_memory_back
from evaluation.jobs.worker import RunWorker, preload
from leaderboard.queue import EDITS, GPU, PROBES


class Command(BaseCommand):
    help = (
        "Work on one queue: edits (calls to models), gpu (local models and scores) or "
        "probes (tests of submitted endpoints)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("queue", choices=(EDITS, GPU, PROBES))

    def handle(self, *args: Any, **options: Any) -> None:
        give_memory_back()
        preload(options["queue"])
        RunWorker(options["queue"]).work(logging_level="WARNING")
