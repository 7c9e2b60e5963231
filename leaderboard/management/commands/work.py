"""Serve one queue until told to stop."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from evaluation.jobs.worker import RunWorker, preload
from leaderboard.queue import EDITS, GPU


class Command(BaseCommand):
    help = "Work on one queue: edits (calls to models) or gpu (local models and scores)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("queue", choices=(EDITS, GPU))

    def handle(self, *args: Any, **options: Any) -> None:
        preload(options["queue"])
        RunWorker(options["queue"]).work(logging_level="WARNING")
