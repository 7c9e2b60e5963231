"""Build the suites that ship again and write them to fixtures/suites/.

`--check` only says whether they are up to date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from evaluation.content.suite_builder import SHIPPED, refusals, shipped, suite_path, write
from evaluation.content.suites import Suite, SuiteError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.content.suite_builder", description=__doc__
    )
    parser.add_argument("suites", nargs="*", help="slugs; all that ship when left out")
    parser.add_argument("--check", action="store_true", help="write nothing, compare only")
    parser.add_argument("--overwrite", action="store_true", help="even where a version differs")
    options = parser.parse_args(arguments)
    stale = 0
    for draft in SHIPPED:
        if options.suites and draft.slug not in options.suites:
            continue
        suite = shipped(draft)
        if reasons := refusals(suite, draft.narrow):
            parser.error(f"{suite.key} may not be frozen: {'; '.join(reasons[:5])}")
        path = suite_path(suite)
        same = path.is_file() and Suite.read(path).content_hash == suite.content_hash
        if not same and not options.check:
            try:
                write(suite, options.overwrite)
            except SuiteError as error:
                parser.error(str(error))
        stale += not same
        state = "unchanged" if same else "differs" if options.check else "written"
        sys.stdout.write(
            f"{suite.slug} v{suite.version}: {state}, {len(suite.pictures)} pictures, "
            f"{len(suite.cases)} cases, {suite.edits} edits, {suite.content_hash[:12]}\n"
        )
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
