"""`convergebench suites`: what can be played."""

from __future__ import annotations

import argparse
from pathlib import Path

from evaluation.cli.printing import say, say_json, table
from evaluation.content import catalog
from evaluation.content.suites import Suite

HELP = "list the suites: frozen sets of pictures and edit pairs"
DESCRIPTION = """\
A suite is a frozen, hashed list of cases (a source picture with an edit pair),
with the number of trips and the working size. Results are compared only within
a suite. `play --suite` takes a name of this list, or the path of a suite file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the suites in full, as JSON")


def run(args: argparse.Namespace) -> int:
    suites = catalog.suites()
    if args.json:
        say_json("suites", {"suites": [suite.to_dict() for suite in suites]})
        return 0
    rows = [
        [
            suite.slug,
            str(suite.version),
            str(len(suite.pictures)),
            str(len(suite.cases)),
            str(suite.trips),
            f"{suite.edits:,}",
            f"{suite.size} px",
            suite.content_hash[:12],
            suite.title,
        ]
        for suite in suites
    ]
    head = ["suite", "version", "pictures", "cases", "trips", "edits", "size", "hash", "title"]
    say(table(head, rows))
    return 0


def find_suite(name: str) -> Suite:
    """A shipped suite by its name, or the suite in a file."""
    if name.endswith(".json") or "/" in name:
        return Suite.read(Path(name))
    return catalog.suite(name)
