"""Write papers from what a site publishes: python -m tools.papers report|reproduce."""

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

    written = commands.add_parser(
        "report",
        help="write a suite's results as a paper",
        description="Write a suite's results as LaTeX, HTML, figures and tables, and as a PDF if "
        "a TeX is installed.",
    )
    written.add_argument("suite", help="lite, or lite-v2 for one version")
    written.set_defaults(run=_report)

    laid = commands.add_parser(
        "reproduce",
        help="write the tables of a published paper beside ours",
        description="Write the tables of a published paper beside the results of a site's runs. "
        "`manage.py start_run` starts the runs that are missing.",
    )
    laid.add_argument("paper", choices=reproduction.PAPERS)
    laid.add_argument(
        "--model", action="append", default=[], help="only this editing model, by its slug"
    )
    laid.add_argument("--suite", default="", help="another suite than the paper's")
    laid.set_defaults(run=_reproduce)

    for command in (written, laid):
        command.add_argument(
            "--source",
            required=True,
            help="address of a site, a folder written by --save, or a run bundle (.zip)",
        )
        command.add_argument("--save", type=Path, help="keep the site's answers in this folder")
        command.add_argument("--out", type=Path, required=True, help="folder for the files")
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
