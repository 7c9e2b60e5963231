"""`convergebench play`: an editor plays a suite into a run folder."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluation import __version__
from evaluation.analysis.stopping import MOST
from evaluation.arms import DEFAULT, FLOOR, Arm, Worded
from evaluation.cli.commands.editors import add_choice, chosen_editors
from evaluation.cli.commands.score import new_scorer
from evaluation.cli.commands.suites import find_suite
from evaluation.cli.hooks import HOOKS, Hooks
from evaluation.cli.printing import (
    CommandError,
    at_least_one,
    dollars,
    note,
    progress,
    say,
    say_json,
    table,
)
from evaluation.cli.suite_parts import Shard, part_of
from evaluation.content.suites import Suite
from evaluation.editors import Editor
from evaluation.errors import EditorError
from evaluation.estimate import Estimate, estimate
from evaluation.play.folder_store import (
    FolderPlayer,
    folder_player,
    play_in_rounds,
    saved,
    stop_after,
)
from evaluation.play.retries import Attempt, Limits
from evaluation.play.run_folder import PlayedChain, RunFolder
from evaluation.play.store import Paused
from evaluation.run_secret import new_secret

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
  convergebench play --editor gemini-3-pro-image --suite smoke --budget 5 --parallel 4
  convergebench play --endpoint http://localhost:8000/v1 --allow-local --suite smoke
  convergebench play --editor my.module:MyEditor --suite smoke --cases 'books--*'
  convergebench play --models jpeg,noise-8,oracle --suite smoke --out runs
  convergebench play --editor jpeg --suite smoke --shard 1/2 --secret HEX   and 2/2 elsewhere"""
# Asking costs more than it saves below this, in USD.
ASK_FROM = 0.01


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_playing(parser)
    parser.add_argument("--json", action="store_true", help="print what was played as JSON")


def add_playing(parser: argparse.ArgumentParser) -> None:
    """The arguments that say who plays what, and how far."""
    add_choice(parser, many=True)
    parser.add_argument(
        "--suite", required=True, help="a name of `convergebench suites`, or a file"
    )
    parser.add_argument(
        "--floor",
        action="store_true",
        help="no edits: the model's autoencoder alone, encoded and decoded, which no prompt can "
        "beat (EDITOR-SUITE-floor)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="RUN",
        help="the run folder (EDITOR-SUITE); of several models the folder of their runs",
    )
    part = parser.add_argument_group("a part of the suite")
    part.add_argument(
        "--trips", type=at_least_one, metavar="N", help="play fewer trips than the suite"
    )
    part.add_argument(
        "--cases",
        metavar="PATTERN",
        help="only cases whose name, picture or pair matches, such as 'books--*' or clock",
    )
    part.add_argument("--limit", type=at_least_one, metavar="N", help="only the first N cases")
    part.add_argument(
        "--shard",
        type=_shard,
        metavar="I/N",
        help="play only the I-th of N shares of the chains; give all the same --secret, "
        "then `convergebench merge` them",
    )
    parser.add_argument(
        "--secret",
        metavar="HEX",
        help="draw seeds and order as the run whose secret this is (a new one)",
    )
    add_terms(parser)


def add_terms(parser: argparse.ArgumentParser) -> None:
    """The arguments that say how far a run may go."""
    money = parser.add_argument_group("what it may cost")
    money.add_argument("--budget", type=dollars, metavar="USD", help="pause before it costs more")
    money.add_argument(
        "--price", type=dollars, metavar="USD", help="what one edit costs, where it is not known"
    )
    money.add_argument(
        "--max-edits",
        type=at_least_one,
        metavar="N",
        help="pause before more edits are asked for, tries included",
    )
    money.add_argument("--yes", action="store_true", help="do not ask before it costs money")
    parser.add_argument(
        "--stop-after",
        type=_stop_after,
        metavar="K",
        help="score while playing, and stop a chain K trips after its end is known at every level "
        "(3 is a good number): usable trips and half-life stay what a full run gives",
    )
    parser.add_argument(
        "--log",
        metavar="NAMES",
        help=f"tell the run to these as it goes on, with commas between ({', '.join(HOOKS)})",
    )
    parser.add_argument("--parallel", type=at_least_one, metavar="N", help="chains played at once")
    parser.add_argument("--attempts", type=at_least_one, default=5, help="tries of one edit (5)")


@dataclass(frozen=True)
class Terms:
    """How a run is played, and how far: what is None is not limited, or the editor's own."""

    parallel: int | None = None
    attempts: int = 5
    budget: float | None = None
    price: float | None = None
    max_edits: int | None = None
    shard: Shard | None = None
    stop_after: int = 0


@dataclass(frozen=True)
class Played:
    """A run after playing; `paused` says why it did not come to its end."""

    folder: RunFolder
    spent: float
    paused: str = ""
    hooks: Hooks = field(default_factory=Hooks)

    @property
    def outcomes(self) -> dict[str, int]:
        return dict(Counter(chain.outcome for chain in self.folder.chains.values()))

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": str(self.folder.path),
            "editor": self.folder.header["editor"],
            "suite": self.folder.suite.slug,
            "chains": len(self.folder.chains),
            "edits": self.folder.edits_done,
            "outcomes": self.outcomes,
            "spent": round(self.spent, 4),
            "saved_edits": saved(self.folder),
            "paused": self.paused,
        }


def run(args: argparse.Namespace) -> int:
    runs = play_all(args)
    for played in runs:
        played.hooks.end(None)
    if args.json:
        say_played(runs, many=bool(args.models))
    elif args.models:
        head = ["run", "edits", "chains", "spent"]
        say(
            table(
                head,
                [
                    [str(p.folder.path), str(p.folder.edits_done), _counts(p), f"${p.spent:,.2f}"]
                    for p in runs
                ],
            )
        )
        say(f"next: convergebench report {' '.join(str(p.folder.path) for p in runs)}")
    elif not runs[0].paused:
        say(f"{runs[0].folder.path}: {runs[0].folder.edits_done} edits, {_counts(runs[0])}")
        if not_asked := saved(runs[0].folder):
            say(f"{not_asked} edits were not asked for: the end of their chains was known")
        say(f"next: convergebench score {runs[0].folder.path}")
    pause_if_any(runs)
    return 0


def say_played(runs: list[Played], *, many: bool) -> None:
    """What was played and spent, as JSON."""
    if many:
        say_json("play-models", {"runs": [p.to_dict() for p in runs]})
    else:
        say_json("play", runs[0].to_dict())


def pause_if_any(runs: list[Played]) -> None:
    """Raises Paused where a run did not come to its end."""
    paused = [p for p in runs if p.paused]
    if len(runs) > 1 and paused:
        raise Paused("; ".join(f"{p.folder.name}: {p.paused}" for p in paused))
    if paused:
        raise Paused(paused[0].paused)


def play_all(args: argparse.Namespace) -> list[Played]:
    """Play with everybody who was named; one who pauses does not stop the next."""
    suite = part_of(find_suite(args.suite), args.trips, args.cases, args.limit)
    terms = Terms(
        *(args.parallel, args.attempts, args.budget, args.price, args.max_edits, args.shard),
        args.stop_after or 0,
    )
    Hooks.of(args.log)  # one that is not here is told before anything is paid
    chosen = chosen_editors(args)
    arm = (FLOOR if args.floor else DEFAULT).settled(Worded.of(pair) for pair in suite.pairs)
    for editor, record in chosen:
        if unable := arm.unable(editor):
            raise CommandError(f"{record['name']} has no floor: {'; '.join(unable)}")
        check_budget(record, terms)
    # All folders first: a wrong one is told before anything is paid.
    folders = [
        open_run(
            _out(args, record, suite),
            suite,
            record,
            _secret(args, record, suite),
            terms.stop_after,
            arm,
        )
        for _, record in chosen
    ]
    return [
        _played(folder, editor, record, terms, args)
        for folder, (editor, record) in zip(folders, chosen, strict=True)
    ]


def _played(
    folder: RunFolder,
    editor: Editor,
    record: dict[str, Any],
    terms: Terms,
    args: argparse.Namespace,
) -> Played:
    hooks = Hooks.of(args.log)
    with folder.playing():
        player = new_player(folder, editor, record, terms)
        hooks.begin(folder)
        paused = ""
        try:
            play_on(
                player,
                record,
                ask=lambda expected: ask_first(expected, record, args),
                on_trip=hooks.on_trip,
            )
        except Paused as pause:
            paused = str(pause)
        except BaseException:
            hooks.end(None)
            raise
    return Played(folder, player.store.spent, paused, hooks)


def _out(args: argparse.Namespace, record: dict[str, Any], suite: Suite) -> Path:
    name = f"{record['slug']}-{suite.slug}" + ("-floor" if args.floor else "")
    if args.shard:
        name += f"-{args.shard.number}-of-{args.shard.of}"
    if args.models:
        return (args.out or Path()) / name
    return args.out or Path(name)


def _secret(args: argparse.Namespace, record: dict[str, Any], suite: Suite) -> str | None:
    secret: str | None = args.secret
    if args.shard and not secret and not (_out(args, record, suite) / "run.json").is_file():
        raise CommandError(
            "the shares of one run draw from one secret: give every machine the same, "
            f"such as --secret {new_secret()}"
        )
    return secret


def _shard(text: str) -> Shard:
    try:
        return Shard.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _stop_after(text: str) -> int:
    number = at_least_one(text)
    if number > MOST:
        raise argparse.ArgumentTypeError(f"at most {MOST}")
    return number


def check_budget(record: dict[str, Any], terms: Terms) -> None:
    """The price that was given replaces the known one; a budget needs one of them."""
    if terms.price is not None:
        record["price"] = terms.price
    if terms.budget is not None and record["price"] is None and not record["free"]:
        raise CommandError(
            f"what an edit of {record['name']} costs is not known, so no budget can hold: give it "
            "with --price, or limit the calls with --max-edits"
        )


def new_player(
    folder: RunFolder, editor: Editor, record: dict[str, Any], terms: Terms
) -> FolderPlayer:
    """What plays on in the folder; its record says with what."""
    folder.header["provenance"] = {
        "convergebench": __version__,
        "python": sys.version.partition(" ")[0],
        "editor": editor.describe(),
    }
    return folder_player(
        folder,
        editor,
        parallel=terms.parallel or record["in_flight"],
        limits=Limits(attempts=terms.attempts),
        budget=terms.budget,
        price=record["price"],
        max_edits=terms.max_edits,
        share=terms.shard.share(folder.chains) if terms.shard else None,
    )


def play_on(
    player: FolderPlayer,
    record: dict[str, Any],
    ask: Callable[[Estimate], None] = lambda expected: None,
    on_trip: Callable[[PlayedChain], None] = lambda chain: None,
) -> None:
    """Play what is still to be played; first say, and `ask`, what it takes."""
    folder = player.store.folder
    if not player.store.waiting:
        return
    expected = expected_of(player, record)
    note(f"{record['name']}: {expected}")
    if (
        player.store.budget is not None
        and player.store.spent + (expected.usd or 0) > player.store.budget
    ):
        note(f"the budget of ${player.store.budget:,.2f} does not reach that far: it will pause")
    ask(expected)
    _play(folder, player, on_trip)
    folder.header["ended"] = datetime.now(UTC).isoformat(timespec="seconds")


def _play(folder: RunFolder, player: FolderPlayer, on_trip: Callable[[PlayedChain], None]) -> None:
    left = sum(folder.edits_left(chain) for chain in player.store.waiting)
    done = folder.edits_done
    bar = progress(done + left, folder.name, "edit", initial=done)

    def failed(slug: str, attempt: Attempt) -> None:
        if isinstance(attempt.ended, EditorError):
            note(f"{slug}, attempt {attempt.number}: {attempt.ended.message}")

    def played(chain: PlayedChain) -> None:
        bar.update()
        if not chain.open_steps:
            on_trip(chain)
        if player.store.spent:
            bar.set_postfix_str(f"${player.store.spent:,.2f}", refresh=False)

    player.store.on_answer, player.store.on_attempt = played, failed
    player.on_interrupt = lambda: note(
        "stopping: edits in flight are finished and kept (Ctrl-C again drops them)"
    )
    try:
        if stop_after(folder):
            play_in_rounds(player, new_scorer(None))
        else:
            player.play()
    finally:
        bar.close()


def open_run(
    out: Path,
    suite: Suite,
    record: dict[str, Any],
    secret: str | None,
    stop: int = 0,
    arm: Arm = DEFAULT,
) -> RunFolder:
    """The run to go on with, or a new one; CommandError where it is another run."""
    if not (out / "run.json").is_file():
        folder = RunFolder.create(
            out, suite, editor=record["editor"], options=record["options"], secret=secret, arm=arm
        )
        folder.header |= {"name": record["name"], "slug": record["slug"]}
        folder.header["stop_after"] = stop
        folder.save()
        return folder
    folder = RunFolder.open(out)
    mine = {"editor": record["editor"], "options": record["options"]}
    if secret:
        mine["secret"] = secret
    if stop:
        mine["stop_after"] = stop
    for name, value in mine.items():
        if folder.header.get(name) != value:
            raise CommandError(
                f"{out} is a run with {name} {folder.header.get(name)!r}, not {value!r}; "
                "choose another --out"
            )
    if folder.arm != arm:
        raise CommandError(
            f"{out} is a run of another arm ({folder.arm}), not of this one ({arm}): settings never "
            "mix in a run; choose another --out"
        )
    if folder.suite.content_hash != suite.content_hash:
        raise CommandError(
            f"{out} is a run of the suite {folder.suite.slug} with {folder.suite.trips} trips "
            f"({folder.suite.content_hash[:12]}); choose another --out"
        )
    return folder


def expected_of(player: FolderPlayer, record: dict[str, Any]) -> Estimate:
    """What is still to come."""
    folder, waiting = player.store.folder, player.store.waiting
    edits = sum(folder.edits_left(chain) for chain in waiting)
    done = [h.seconds for chain in folder.chains.values() for h in chain.halves]
    each = sum(done) / len(done) if done else (0.2 if record["free"] else None)
    price = 0.0 if record["free"] else record["price"]
    return estimate(
        edits,
        price,
        each,
        player.parallel,
        calls_per_minute=record["calls_per_minute"],
        chains=max(1, len(waiting)),
        stop_after=stop_after(folder),
    )


def ask_first(expected: Estimate, record: dict[str, Any], args: argparse.Namespace) -> None:
    """Where it costs money, ask first."""
    if args.yes or record["free"] or record.get("own") or (expected.usd or ASK_FROM) < ASK_FROM:
        return
    if not sys.stdin.isatty():
        raise CommandError("this may cost money; say --yes to play without being asked")
    sys.stderr.write("Play? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("not played")


def _counts(played: Played) -> str:
    names = sorted(played.outcomes.items())
    return ", ".join(f"{count} {outcome or 'to play'}" for outcome, count in names)
