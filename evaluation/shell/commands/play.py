"""`convergebench play`: an editor plays a suite into a run folder."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluation import __version__
from evaluation.content.suites import Suite
from evaluation.errors import EditorError
from evaluation.estimate import Estimate, estimate
from evaluation.retries import Attempt, Limits
from evaluation.shell.commands.editors import find_editor
from evaluation.shell.commands.printing import CommandError, note, progress, say, say_json
from evaluation.shell.commands.suites import find_suite
from evaluation.shell.player import Player
from evaluation.shell.run_folder import RunFolder

HELP = "play an editor on a suite: forward and backward, again and again"
DESCRIPTION = """\
Plays every case of a suite into a run folder, one chain of round trips per
case. Every answer is kept before the next edit is asked for: stop it with
Ctrl-C, kill it, lose the network; the same command goes on where it was and
repeats no finished edit."""
EPILOG = """\
examples:
  convergebench play --editor jpeg --suite smoke
  convergebench play --editor jpeg --option quality=30 --suite smoke --out jpeg-30
  convergebench play --editor gemini-3-pro-image --suite smoke --budget 5 --parallel 4"""
# Asking costs more than it saves below this, in USD.
ASK_FROM = 0.01


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--editor", required=True, help="a name of `convergebench editors`")
    parser.add_argument(
        "--suite", required=True, help="a name of `convergebench suites`, or a file"
    )
    parser.add_argument("--out", type=Path, metavar="RUN", help="the run folder (EDITOR-SUITE)")
    parser.add_argument("--trips", type=int, metavar="N", help="play fewer trips than the suite")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the editor; may be repeated",
    )
    parser.add_argument(
        "--secret",
        metavar="HEX",
        help="draw seeds and order as the run whose secret this is (a new one)",
    )
    parser.add_argument("--budget", type=float, metavar="USD", help="pause before it costs more")
    parser.add_argument("--yes", action="store_true", help="do not ask before it costs money")
    parser.add_argument("--parallel", type=int, metavar="N", help="chains played at once")
    parser.add_argument("--attempts", type=int, default=5, help="tries of one edit (5)")
    parser.add_argument("--json", action="store_true", help="print what was played as JSON")


def run(args: argparse.Namespace) -> int:
    for name in ("trips", "parallel", "attempts"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise CommandError(f"--{name} must be at least 1")
    if args.budget is not None and args.budget < 0:
        raise CommandError("--budget cannot be negative")
    editor, record = find_editor(args.editor, _options(args.option))
    suite = _shortened(find_suite(args.suite), args.trips)
    out = args.out or Path(f"{record['slug']}-{suite.slug}")
    folder = _folder(out, suite, record, args.secret)
    parallel = args.parallel or record["in_flight"]
    with folder.playing():
        folder.header["provenance"] = {
            "convergebench": __version__,
            "python": sys.version.partition(" ")[0],
            "editor": editor.describe(),
        }
        player = Player(
            folder,
            editor,
            parallel=parallel,
            limits=Limits(attempts=args.attempts),
            budget=args.budget,
            price=record["price"],
        )
        if not folder.complete:
            expected = _estimate(folder, record, parallel)
            note(f"{record['name']}: {expected}")
            if args.budget is not None and player.spent + (expected.usd or 0) > args.budget:
                note(f"the budget of ${args.budget:,.2f} does not reach that far: it will pause")
            _ask(expected, record, args)
            _play(folder, player)
            folder.header["ended"] = datetime.now(UTC).isoformat(timespec="seconds")
    _tell(folder, player.spent, args.json)
    return 0


def _play(folder: RunFolder, player: Player) -> None:
    bar = progress(folder.suite.edits, folder.name, "edit", initial=folder.edits_done)

    def failed(slug: str, attempt: Attempt) -> None:
        if isinstance(attempt.ended, EditorError):
            note(f"{slug}, attempt {attempt.number}: {attempt.ended.message}")

    def played(_: Any) -> None:
        bar.update()
        if player.spent:
            bar.set_postfix_str(f"${player.spent:,.2f}", refresh=False)

    player.on_half, player.on_attempt = played, failed
    player.on_interrupt = lambda: note(
        "stopping: edits in flight are finished and kept (Ctrl-C again drops them)"
    )
    try:
        player.play()
    finally:
        bar.close()


def _options(pairs: list[str]) -> dict[str, Any]:
    """NAME=VALUE; a value that reads as JSON is that, else it is text."""
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"--option {pair!r} is not NAME=VALUE")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def _shortened(suite: Suite, trips: int | None) -> Suite:
    if trips is None or trips == suite.trips:
        return suite
    if trips > suite.trips:
        raise CommandError(f"the suite {suite.slug} has {suite.trips} trips; --trips only shortens")
    # Another number of trips is another suite: its hash says so.
    return dataclasses.replace(suite, trips=trips)


def _folder(out: Path, suite: Suite, record: dict[str, Any], secret: str | None) -> RunFolder:
    """The run to go on with, or a new one; CommandError where it is another run."""
    if not (out / "run.json").is_file():
        folder = RunFolder.create(
            out, suite, editor=record["editor"], options=record["options"], secret=secret
        )
        folder.header |= {"name": record["name"], "slug": record["slug"]}
        folder.save()
        return folder
    folder = RunFolder.open(out)
    mine = {"editor": record["editor"], "options": record["options"]}
    if secret:
        mine["secret"] = secret
    for name, value in mine.items():
        if folder.header.get(name) != value:
            raise CommandError(
                f"{out} is a run with {name} {folder.header.get(name)!r}, not {value!r}; "
                "choose another --out"
            )
    if folder.suite.content_hash != suite.content_hash:
        raise CommandError(
            f"{out} is a run of the suite {folder.suite.slug} with {folder.suite.trips} trips "
            f"({folder.suite.content_hash[:12]}); choose another --out"
        )
    return folder


def _estimate(folder: RunFolder, record: dict[str, Any], parallel: int) -> Estimate:
    """What is still to come."""
    trips = folder.suite.trips
    waiting = [chain for chain in folder.chains.values() if not chain.outcome]
    edits = sum(2 * trips - len(chain.halves) for chain in waiting)
    done = [h.seconds for chain in folder.chains.values() for h in chain.halves]
    each = sum(done) / len(done) if done else (0.2 if record["free"] else None)
    price = 0.0 if record["free"] else record["price"]
    return estimate(
        edits,
        price,
        each,
        parallel,
        calls_per_minute=record["calls_per_minute"],
        chains=max(1, len(waiting)),
    )


def _ask(expected: Estimate, record: dict[str, Any], args: argparse.Namespace) -> None:
    """Where it costs money, ask first."""
    if args.yes or record["free"] or (expected.usd or ASK_FROM) < ASK_FROM:
        return
    if not sys.stdin.isatty():
        raise CommandError("this may cost money; say --yes to play without being asked")
    sys.stderr.write("Play? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("not played")


def _tell(folder: RunFolder, spent: float, as_json: bool) -> None:
    outcomes: dict[str, int] = {}
    for chain in folder.chains.values():
        outcomes[chain.outcome] = outcomes.get(chain.outcome, 0) + 1
    if as_json:
        say_json(
            {
                "run": str(folder.path),
                "editor": folder.header["editor"],
                "suite": folder.suite.slug,
                "chains": len(folder.chains),
                "edits": folder.edits_done,
                "outcomes": outcomes,
                "spent": round(spent, 4),
            }
        )
        return
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    say(f"{folder.path}: {folder.edits_done} edits, {counts}")
    say(f"next: convergebench score {folder.path}")
