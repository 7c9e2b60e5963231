"""Write papers from a site's public results: python -m tools.papers report|reproduce."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from evaluation.errors import UserFacingError
from tools.papers import report, reproduction
from tools.papers.source import Source


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.papers", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    report_parser = commands.add_parser(
        "report",
        help="write a suite's results as a paper",
        description="Write a suite's results as LaTeX, HTML, figures and tables, and as a PDF if "
        "TeX is installed.",
    )
    report_parser.add_argument("suite", help="a suite: lite, or lite-v2 for one version")
    report_parser.set_defaults(run=_report)

    reproduce_parser = commands.add_parser(
        "reproduce",
        help="compare the tables of a published paper with a site's results",
        description="Compare the tables of a published paper with the results of a site's runs. "
        "Start missing runs with `manage.py start_run`.",
    )
    reproduce_parser.add_argument("paper", choices=reproduction.PAPERS)
    reproduce_parser.add_argument(
        "--model", action="append", default=[], help="only the editing model with this slug"
    )
    reproduce_parser.add_argument("--suite", default="", help="use this suite, not the paper's")
    reproduce_parser.set_defaults(run=_reproduce)

    for command in (report_parser, reproduce_parser):
        command.add_argument(
            "--source",
            required=True,
            help="address of a site, a folder written by --save, or a run bundle (.zip)",
        )
        command.add_argument("--save", type=Path, help="save the site's answers in this folder")
        command.add_argument("--out", type=Path, required=True, help="output folder")
    options = parser.parse_args(arguments)
    try:
        print(options.run(options, Source.open(options.source, options.save)))
    except (UserFacingError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _report(options: argparse.Namespace, source: Source) -> str:
    return report.write(source, options.suite, options.out)


def _reproduce(options: argparse.Namespace, source: Source) -> str:
    return reproduction.write(source, options.paper, options.out, options.model, options.suite)


if __name__ == "__main__":
    sys.exit(main())
