"""`convergebench weights`: fetch and verify the weights of the networks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tqdm import tqdm

from evaluation import weights
from evaluation.cli.printing import CommandError, Output, echo, echo_json, note, progress, table
from evaluation.metrics import HEADLINE, headline_parts

HELP = "fetch and verify the weights of metrics, checks of edits (witnesses) and editors"
DESCRIPTION = """\
Fetches the weights that are missing and verifies all of them. They are in
$CONVERGEBENCH_WEIGHTS, else in ~/.cache/convergebench/weights. A metric
without verified weights is "not run"."""
EPILOG = """\
exit code: 1 if weights are missing that you named or that the headline metric needs.

examples:
  convergebench weights                          fetch what is missing
  convergebench weights --check                  print the state only
  convergebench weights lpips-alex --file FILE   from a file, with no network"""


class Weight(BaseModel):
    """One file of weights."""

    name: str
    label: str
    needed_by: str
    file: str
    ready: bool
    sha256: str | None
    size: int | None
    problem: str


class WeightsOutput(Output):
    """Output of `weights --json`."""

    schema_name = "weights"
    weights: list[Weight]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(weights.WEIGHTS)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which weights (default: all): {names}"
    )
    parser.add_argument("--check", action="store_true", help="download nothing")
    parser.add_argument("--file", type=Path, help="a local file to read the weights from")
    parser.add_argument(
        "--json", action="store_true", help="print the state of all weights as JSON"
    )


def run(args: argparse.Namespace) -> int:
    """Fetch and list weights; return 0 if those named or needed are ready."""
    for name in args.names:
        if name not in weights.WEIGHTS:
            names = ", ".join(weights.WEIGHTS)
            raise CommandError(f"there are no weights called {name!r}; there are {names}")
    if args.file and len(args.names) != 1:
        raise CommandError("--file needs exactly one name")
    if args.file and not args.file.is_file():
        raise CommandError(f"there is no file {args.file}")
    wanted = args.names or list(weights.WEIGHTS)
    if not args.check:
        for status in weights.status():
            if status.name in wanted and not status.ready:
                _fetch(status, args.file)
    statuses = [status for status in weights.status() if status.name in wanted]
    if args.json:
        echo_json(
            WeightsOutput(weights=[Weight(**{**vars(s), "file": str(s.file)}) for s in statuses])
        )
    else:
        rows = [
            [s.name, s.needed_by, f"{(s.size or 0) / 1e6:.0f} MB" if s.ready else "", _state(s)]
            for s in statuses
        ]
        echo(table(["weights", "needed by", "size", "state"], rows))
    needed = [s for s in statuses if args.names or s.needed_by in (HEADLINE, *headline_parts())]
    return 0 if all(status.ready for status in needed) else 1


def _state(status: weights.Status) -> str:
    if status.ready:
        return f"verified, sha256 {(status.sha256 or '')[:12]}…, {status.file}"
    return status.problem


def _fetch(status: weights.Status, file: Path | None) -> None:
    """Fetch weights with a progress bar; print errors instead of raising them."""
    bar: tqdm[Any] | None = None

    def report(stage: str, done: int, total: int | None) -> None:
        nonlocal bar
        if bar is None:
            bar = progress(total or 0, status.label, "B")
            bar.unit, bar.unit_scale = "B", True
        bar.total = total
        bar.set_postfix_str(stage, refresh=False)
        bar.update(done - bar.n)

    try:
        weights.fetch(status.name, file=file, progress=report)
    except weights.WeightsError as error:
        note(f"{status.label}: {error}")
    finally:
        if bar is not None:
            bar.close()
