"""The study of "change seen": how often the judgement of the forward edit errs."""

from __future__ import annotations

import argparse

from evaluation.cli.playing import find_suite
from evaluation.cli.printing import progress
from evaluation.measuring.error_rates import ErrorRate, ErrorTable
from tools.studies import tables
from tools.studies.change_seen_rates import DAMAGES, DRIFTS, FALSE_FLIPS, error_rates

HELP = 'measure how often "change seen" errs, on the shipped images'
DESCRIPTION = """\
Every trip is asked: was the edit made at all? This study measures how often that
judgement errs: on drawings and flips that were made, while the model also moved,
recoloured or wore out the whole image; and on images in which nothing was made.
It takes a few minutes."""
SUITES = ("smoke", "lite")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--suite",
        action="append",
        metavar="SUITE",
        help=f"whose images and pairs; may be given again (default: {', '.join(SUITES)})",
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument(
        "--store", action="store_true", help="keep the table as the one that the site shows"
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
    print(tables.as_text(["edit", "and beside it"], [(_edit(rate), rate) for rate in rates]))


def _edit(rate: ErrorRate) -> str:
    made = {"local": "a drawing", "exact": "a flip or turn"}[rate.of]
    return made if rate.should_be_seen else "none"
