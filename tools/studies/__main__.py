"""Measure the benchmark's error rates: python -m tools.studies STUDY."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from evaluation.errors import UserFacingError
from tools.studies import change_seen, headline, intervals, witnesses

STUDIES = {
    "change-seen": change_seen,
    "headline": headline,
    "intervals": intervals,
    "witnesses": witnesses,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.studies", description=__doc__)
    studies = parser.add_subparsers(metavar="STUDY", required=True)
    for name, study in STUDIES.items():
        sub = studies.add_parser(
            name,
            help=study.HELP,
            description=study.DESCRIPTION,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        study.add_arguments(sub)
        sub.set_defaults(run=study.run)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except UserFacingError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
