"""`convergebench site`: start the leaderboard on this machine, like `make up`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path

from evaluation.cli.printing import CommandError

HELP = "start the leaderboard on this machine"
DESCRIPTION = """\
Starts database, queue, web server and workers, loads the benchmark and plays the reference
editors. Runs in the foreground until Ctrl-C. Needs `pip install 'convergebench[site,worker]'`.
All data is in the data folder. Set PORT to use a port other than 8000."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="the data folder (default: $DATA_DIR, else ./var)",
    )
    parser.add_argument("--no-play", action="store_true", help="do not play the reference editors")


def run(args: argparse.Namespace) -> int:
    """Replace this process with the site's."""
    for package in ("django", "gunicorn", "supervisor", "torch"):
        if importlib.util.find_spec(package) is None:
            raise CommandError(
                f"the site needs the Python package {package}, which is not installed: "
                "pip install 'convergebench[site,worker]'"
            )
    data = args.data or Path(os.environ.get("DATA_DIR") or "var")
    environment = os.environ | {
        "DATA_DIR": str(data.expanduser().resolve()),
        "DJANGO_SETTINGS_MODULE": "convergebench_site.settings",
    }
    command = [sys.executable, "-m", "django", "up", *(["--no-play"] if args.no_play else [])]
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)  # noqa: S606 -- our own interpreter
