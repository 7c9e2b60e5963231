"""`convergebench verify`: recompute a run from its bundle or folder."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field

from evaluation.bundle import document as bundles
from evaluation.bundle.checks import DIFFERENT, EQUAL, NOT_CHECKED, Check, verdict
from evaluation.bundle.document import Bundle
from evaluation.bundle.verify import Verification
from evaluation.cli.commands.bundle import pack_run
from evaluation.cli.printing import Output, echo, echo_json, progress
from evaluation.play.run_folder import RunFolder

HELP = "recompute every number of a run bundle or folder and compare"
DESCRIPTION = """\
Recomputes every number of a bundle or a scored run folder: hashes, scores, calibrations,
whether each edit is visible, retention, events, half-lives, usable trips, AUC and their intervals.
Each line is "equal", "different", or "not checked" with the reason."""
EPILOG = """\
exit codes: 0 nothing differs; 1 something differs, or the bundle is refused."""
SUMS = {
    True: "Every number was recomputed and is equal.",
    None: "Nothing differs, but some values were not checked: their lines give the reason.",
    False: "Recomputed values differ from the bundle: see the lines marked different.",
}


class VerifyOutput(Output):
    """Output of `verify --json`."""

    schema_name = "verify"
    bundle: str
    digest: str
    equal: int
    different: int
    not_checked: int
    verified: bool | None = Field(
        description="None if nothing differs but some values were not checked."
    )
    checks: list[Check]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bundle", metavar="BUNDLE", type=Path, help="a run's zip file, or a run folder"
    )
    parser.add_argument("--quiet", action="store_true", help="print differences and totals only")
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the checks; return 1 if a value differs."""
    with _bundle(args.bundle) as bundle:
        verification = Verification(bundle)
        checks: list[Check] = []
        lines: set[str] = set()
        with progress(verification.steps, "Verifying", "line") as bar:
            for check in verification.checks():
                checks.append(check)
                if check.what == "digest" and check.line not in lines:
                    lines.add(check.line)
                    bar.update()
                if not args.json and (check.verdict == DIFFERENT or not args.quiet):
                    echo(str(check))
        counts = Counter(check.verdict for check in checks)
        verified = verdict(counts)
        if args.json:
            echo_json(
                VerifyOutput(
                    bundle=str(args.bundle),
                    digest=bundle.digest,
                    equal=counts[EQUAL],
                    different=counts[DIFFERENT],
                    not_checked=counts[NOT_CHECKED],
                    verified=verified,
                    checks=checks,
                )
            )
        else:
            numbers = ", ".join(f"{counts[v]} {v}" for v in (EQUAL, DIFFERENT, NOT_CHECKED))
            echo(f"\n{numbers}. {SUMS[verified]}")
    return 1 if counts[DIFFERENT] else 0


@contextmanager
def _bundle(path: Path) -> Iterator[Bundle]:
    """Open the bundle in a file; pack a run folder first."""
    if not path.is_dir():
        with bundles.read(path) as bundle:
            yield bundle
        return
    folder = RunFolder.open(path)
    with tempfile.TemporaryDirectory(prefix="convergebench-verify-") as folder_name:
        file = Path(folder_name) / "run.zip"
        pack_run(folder, file)
        with bundles.read(file) as bundle:
            yield bundle
