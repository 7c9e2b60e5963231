"""Install the packages for scoring, fetch weights, start missing runs of reference editors."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from evaluation import weights
from leaderboard.operation.scoring_packages import Stage, save_stage

#: Networks whose weights are fetched at the first start.
WEIGHTS = {
    "dinov2-small": "DINOv2 (90 MB)",
    "lpips-alex": "LPIPS (61 MB)",
    "face-parsing": "face parsing (20 MB)",
    "neural-eraser": "the neural eraser (28 MB)",
    "coco-detector": "the object detector (4 MB)",
    "text-reader": "reading (27 MB)",
    "brisque": "BRISQUE (0.2 MB)",
    "niqe": "NIQE (2 MB)",
}
#: Weights that can be fetched only after the packages are installed.
NEEDS_PACKAGES = {"dinov2-small", "lpips-alex"}
#: Patterns of pip's output: a package that it fetches now, and the reasons for a failure.
COLLECTING = re.compile(r"Collecting ([\w.-]+)")
FAILING = re.compile(r"error|fail|\*\*\*", re.IGNORECASE)
AGAIN = "Fix the cause and run `make up` again; the installation continues where it stopped."


class Command(BaseCommand):
    help = "Install and prepare scoring. `manage.py up` runs this in the background."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--install", metavar="TARGET", help="The target of make that installs the packages."
        )
        parser.add_argument(
            "--suite", help="Start reference editors that have no run on this suite."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        suite = ["--suite", options["suite"]] if options["suite"] else []
        if options["install"]:
            with ThreadPoolExecutor(1) as background:
                background.submit(self._fetch_meanwhile)
                self._install(options["install"])
            # This process started without the packages; a new process can import them.
            command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "prepare_scoring"]
            sys.stdout.flush()
            os.execv(sys.executable, [*command, *suite])  # noqa: S606 -- our own interpreter
        self._fetch_weights()
        if suite:
            logging.getLogger("leaderboard.job_queue").setLevel(logging.ERROR)
            call_command("start_run", *suite, references=True, missing=True, verbosity=0)
        save_stage(Stage.READY)
        self.stdout.write("convergebench: scoring is ready")

    def _install(self, target: str) -> None:
        """Run make for the target and report its progress."""
        log = settings.DATA_DIR / "scoring_packages.log"
        command = ["make", "--no-print-directory", target, "QUIET=--progress-bar=off"]
        last: deque[str] = deque(maxlen=5)
        collected = 0
        with log.open("w") as log_file:
            try:
                process = subprocess.Popen(  # noqa: S603 -- the target is `up`'s own
                    command,
                    cwd=settings.BASE_DIR,
                    env=os.environ | {"PYTHONUNBUFFERED": "1"},  # each line as pip writes it
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                )
            except OSError as error:
                self._fail(f"make cannot be started: {error.strerror}", log)
            assert process.stdout is not None  # noqa: S101 -- a pipe was requested
            for line in process.stdout:
                log_file.write(line)
                log_file.flush()
                if match := COLLECTING.match(line):
                    collected += 1
                    save_stage(Stage.INSTALLING, f"{collected} packages so far, now {match[1]}")
                elif line.startswith("Installing collected"):
                    save_stage(Stage.INSTALLING, f"unpacking {collected} packages")
                if FAILING.search(line):
                    last.append(line.strip()[:300])
        if process.wait():
            self._fail(" ".join(last) or f"make ended with {process.returncode}", log)

    def _fail(self, why: str, log: Path) -> None:
        save_stage(Stage.FAILED, f"{why} The full log is in {log}. {AGAIN}")
        raise CommandError(
            f"the scoring packages could not be installed: {why}\n"
            f"The board continues without scores. The full log is in {log}. {AGAIN}"
        )

    def _fetch_meanwhile(self) -> None:
        """Fetch weights while packages are installed; failures are tried again later."""
        ready = {status.name for status in weights.status() if status.ready}
        for name in (name for name in WEIGHTS if name not in ready | NEEDS_PACKAGES):
            with suppress(Exception):  # reported by `_fetch_weights` if it fails again
                weights.fetch(name)

    def _fetch_weights(self) -> None:
        """Fetch missing weights; a network without weights is not run."""
        ready = {status.name for status in weights.status() if status.ready}
        for name, label in WEIGHTS.items():
            if name in ready:
                continue
            self.stdout.write(f"convergebench: fetching weights of {label} ...")
            save_stage(Stage.FETCHING, label)
            try:
                weights.fetch(name)
            except weights.WeightsError as error:
                self.stderr.write(f"convergebench: {label} will not be run: {error}")
