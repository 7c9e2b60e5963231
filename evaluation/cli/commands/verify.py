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
from evaluation.cli.commands.bundle import packed
from evaluation.cli.printing import Output, progress, say, say_json
from evaluation.play.run_folder import RunFolder

HELP = "recompute every number of a run bundle or folder and compare"
DESCRIPTION = """\
Recompute every number that a bundle, or a run folder that was scored, allows: hashes, scores, calibrations, change
seen, retention, events, half-lives, usable trips, AUC and their intervals. Each
line says "equal", "different" or "not checked" with the reason."""
EPILOG = """\
exit codes: 0 nothing differs; 1 something differs, or the bundle is refused."""
SUMS = {
    True: "Every number was recomputed and is equal.",
    None: "Nothing differs; what was not checked says why.",
    False: "This bundle is not what it says: see the lines that are different.",
}


class VerifyOutput(Output):
    """`verify`."""

    schema_name = "verify"
    bundle: str
    digest: str
    equal: int
    different: int
    not_checked: int
    verified: bool | None = Field(description="None: nothing differs, some could not be checked.")
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
                    say(str(check))
        counts = Counter(check.verdict for check in checks)
        verified = verdict(counts)
        if args.json:
            say_json(
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
            say(f"\n{numbers}. {SUMS[verified]}")
    return 1 if counts[DIFFERENT] else 0


@contextmanager
def _bundle(path: Path) -> Iterator[Bundle]:
    """Open the bundle in the file, or pack and open that of a run folder."""
    if not path.is_dir():
        with bundles.read(path) as bundle:
            yield bundle
        return
    folder = RunFolder.open(path)
    with tempfile.TemporaryDirectory(prefix="convergebench-verify-") as aside:
        file = Path(aside) / "run.zip"
        packed(folder, file)
        with bundles.read(file) as bundle:
            yield bundle
