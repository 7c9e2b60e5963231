"""The study of "change seen": error rates of the verdict on forward edits."""

from __future__ import annotations

import argparse

from evaluation.cli.playing import find_suite
from evaluation.cli.printing import progress
from evaluation.measuring.error_rates import ErrorRate, ErrorTable
from tools.studies import tables
from tools.studies.change_seen_rates import DAMAGES, DRIFTS, FALSE_FLIPS, error_rates

HELP = 'measure the error rates of "change seen" on the shipped images'
DESCRIPTION = """\
"Change seen" decides for every trip if the edit was made at all. This study measures its
error rates on images with a drawing or a flip, and on images without an edit. Most of
these images were also moved, recoloured or damaged as a whole. The study takes a few
minutes."""
SUITES = ("smoke", "lite")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--suite",
        action="append",
        metavar="SUITE",
        help=f"a suite to use; may be repeated (default: {', '.join(SUITES)})",
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument(
        "--store", action="store_true", help="store the table for the methodology page"
    )


def run(args: argparse.Namespace) -> None:
    """Measure and print the table."""
    suites = [find_suite(name) for name in args.suite or SUITES]
    rates: list[ErrorRate] = []
    rows = 2 * len(DRIFTS) + len(DAMAGES) + len(FALSE_FLIPS)
    with progress(rows, "Judging", "row") as bar:
        for rate in error_rates(suites):
            rates.append(rate)
            bar.update()
    measured = ErrorTable({suite.slug: suite.content_hash for suite in suites}, tuple(rates))
    if args.store:
        tables.store(measured, "change_seen")
    if args.json:
        print(tables.as_json(measured))
        return
    print(tables.as_text(["edit", "other change"], [(_edit(rate), rate) for rate in rates]))


def _edit(rate: ErrorRate) -> str:
    made = {"local": "a drawing", "exact": "a flip or turn"}[rate.of]
    return made if rate.should_be_seen else "none"
