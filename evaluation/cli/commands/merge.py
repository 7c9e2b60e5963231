"""`convergebench merge`: join the shares of a run from several machines."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from evaluation.cli.printing import CommandError, Output, echo, echo_json
from evaluation.play.run_folder import PlayedChain, RunFolder

HELP = "combine the shares of a run that several machines played"
DESCRIPTION = """\
Puts the chains of several run folders into a new one. They must be shares of one run:
the same suite, editor, options and secret (`run --shard I/N --secret HEX`). A chain
that is in several shares is taken from the share that played most of it. It is an error
if two shares finished a chain with different images."""
EPILOG = """\
example:
  convergebench merge jpeg-smoke-1-of-2 jpeg-smoke-2-of-2 --out jpeg-smoke"""
SAME = ("editor", "options", "arm", "secret", "stop_after")


class MergeOutput(Output):
    """Output of `merge --json`."""

    schema_name = "merge"
    run: str
    runs: list[str]
    chains: int
    ended: int
    complete: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders made by `run`")
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="the new folder")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    shares = [RunFolder.open(path) for path in args.runs]
    merged = merge(shares, args.out)
    ended = sum(bool(chain.outcome) for chain in merged.chains.values())
    if args.json:
        echo_json(
            MergeOutput(
                run=str(merged.path),
                runs=[str(share.path) for share in shares],
                chains=len(merged.chains),
                ended=ended,
                complete=merged.complete,
            )
        )
        return 0
    echo(f"{merged.path}: {ended} of {len(merged.chains)} chains")
    echo(f"next: convergebench {'score' if merged.complete else 'run ... --out'} {merged.path}")
    return 0


def merge(shares: Sequence[RunFolder], out: Path) -> RunFolder:
    """Join the shares in a new run folder. Raises CommandError if they do not match."""
    first = shares[0]
    for share in shares[1:]:
        if share.suite.content_hash != first.suite.content_hash:
            raise CommandError(f"{share.path} and {first.path} played different suites")
        for name in SAME:
            if getattr(share.header, name) != getattr(first.header, name):
                raise CommandError(f"{share.path} and {first.path} differ in {name}")
    best_shares = {slug: _best_share(slug, shares) for slug in first.chains}
    merged = RunFolder.create(
        out,
        first.suite,
        editor=first.header.editor,
        options=first.header.options,
        secret=first.secret,
        arm=first.arm,
    )
    for slug, share in best_shares.items():
        if share.chains[slug].edits or share.chains[slug].outcome:
            _copy(share.path / "chains" / slug, merged.path / "chains" / slug)
    calls = sorted((call for share in shares for call in share.calls()), key=lambda call: call.at)
    lines = "".join(call.line for call in calls)
    (merged.path / "calls.jsonl").write_text(lines, encoding="utf-8")
    merged = RunFolder.open(out)
    begun = min(share.header.begun for share in shares)
    ends = [share.header.ended or "" for share in shares]
    ended = max(ends) if all(ends) else None
    merged.header = first.header.model_copy(update={"begun": begun, "ended": ended})
    merged.save()
    return merged


def _copy(folder: Path, to: Path) -> None:
    """Copy the files of a chain. Raises CommandError for links."""
    to.mkdir(parents=True)
    for file in sorted(folder.iterdir()):
        if file.is_symlink() or not file.is_file():
            raise CommandError(f"{file} is not a regular file")
        shutil.copy2(file, to / file.name)


def _best_share(slug: str, shares: Sequence[RunFolder]) -> RunFolder:
    """Return the share that played most of a chain."""

    def images(share: RunFolder) -> list[str]:
        return [edit.sha256 for edit in share.chains[slug].edits]

    def played(share: RunFolder) -> tuple[bool, int]:
        chain: PlayedChain = share.chains[slug]
        return bool(chain.outcome), len(chain.edits)

    best = max(shares, key=played)
    for share in shares:
        if share.chains[slug].outcome and images(share) != images(best):
            raise CommandError(
                f"{share.path} and {best.path} finished {slug} with different images"
            )
    return best
