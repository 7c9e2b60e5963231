"""Play a suite with an editor, within limits, and save it in a run folder; continue such runs."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from evaluation import __version__
from evaluation.analysis.stopping import MAX_STOP_AFTER
from evaluation.arms import DEFAULT, Arm
from evaluation.audits.plan import plan
from evaluation.cli.editors import ChosenEditor
from evaluation.cli.hooks import Hooks
from evaluation.cli.printing import CommandError, at_least_one, dollars, note, progress
from evaluation.cli.scoring import new_scorer
from evaluation.content import catalog
from evaluation.content.suites import Case, Suite, SuiteError
from evaluation.errors import EditorError
from evaluation.estimate import Estimate, estimate
from evaluation.play.folder_store import (
    FolderPlayer,
    folder_player,
    play_in_rounds,
    saved_edits,
)
from evaluation.play.retries import Attempt, Limits
from evaluation.play.run_folder import PlayedChain, RunFolder
from evaluation.play.store import Paused

#: Runs below this cost, in USD, start without confirmation.
ASK_FROM = 0.01


# A suite, or a part of it: fewer trips, some cases, one machine's share.


def find_suite(
    name: str,
    trips: int | None = None,
    cases: str | Iterable[str] | None = None,
    limit: int | None = None,
) -> Suite:
    """Return a shipped suite by name, or the suite in a file, or only a part of the suite.

    `trips` shortens the chains. `cases` are patterns for the names of cases, images or pairs; a
    string is split at commas. `limit` takes the first cases. A part has its own content hash.
    """
    is_file = name.endswith(".json") or "/" in name
    suite = Suite.read(Path(name)) if is_file else catalog.suite(name)
    if trips is not None and trips > suite.trips:
        raise SuiteError(f"the suite {suite.slug} has {suite.trips} trips; --trips cannot add any")
    if trips is not None and trips < 1:
        raise SuiteError("a suite needs at least one trip")
    wanted = suite.cases
    if cases is not None:
        patterns = cases.split(",") if isinstance(cases, str) else list(cases)
        for pattern in patterns:
            if not any(_matches(case, pattern.strip()) for case in suite.cases):
                raise SuiteError(
                    f"no case of {suite.slug} matches {pattern.strip()!r}: give the name of an "
                    f"image, of a pair, or of a case, such as {suite.cases[0].slug}"
                )
        wanted = tuple(
            case for case in wanted if any(_matches(case, pattern.strip()) for pattern in patterns)
        )
    if limit is not None:
        wanted = wanted[:limit]
    if not wanted:
        raise SuiteError(f"no case of {suite.slug} is selected")
    return replace(suite, trips=trips or suite.trips, cases=wanted)


def _matches(case: Case, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (case.slug, case.image, case.pair))


@dataclass(frozen=True)
class Shard:
    """One machine's share: every `of`-th chain, from the `number`-th on."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse a share given on the command line, such as "2/4". Raises ArgumentTypeError."""
        match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise argparse.ArgumentTypeError(f"{text!r} is not a share like 1/4")
        return cls(int(match[1]), int(match[2]))

    def share(self, chains: Iterable[str]) -> set[str]:
        """Return the chains that this machine plays."""
        return set(list(chains)[self.number - 1 :: self.of])


# Playing.


@dataclass(frozen=True)
class PlayOptions:
    """Settings and limits of playing; None means unlimited, or the editor's own value.

    `budget` and `price` (of one edit) are in USD. `max_edits` bounds all calls, including
    retries. `stop_after` ends a chain this many trips after its result is known (3 is a good
    number): fewer edits, the same half-life. `secret` repeats the seeds and order of another run.
    `audits` adds the audits (extra requests that test for cheating) that a site plays. `arm` has
    the settings that differ from the suite's.
    """

    parallel: int | None = None
    attempts: int = 5
    budget: float | None = None
    price: float | None = None
    max_edits: int | None = None
    stop_after: int = 0
    secret: str | None = None
    shard: Shard | None = None
    audits: bool = False
    arm: Arm = DEFAULT

    def price_of(self, chosen: ChosenEditor) -> float | None:
        """Return the price of an edit, from these options or the editor.

        Raises CommandError if there is a budget, but no price.
        """
        price = chosen.price if self.price is None else self.price
        if self.budget is not None and price is None and not chosen.is_free:
            raise CommandError(
                f"the price per edit of {chosen.name} is unknown, so the budget cannot be "
                "enforced: set --price, or limit the calls with --max-edits"
            )
        return price


class PlayedRun(BaseModel):
    """A run after playing."""

    run: str = Field(description="The run folder.")
    editor: str
    suite: str
    chains: int
    edits: int = Field(description="Edits played so far, in total.")
    outcomes: dict[str, int] = Field(description='Chains by outcome; "" if still to be played.')
    spent: float = Field(description="USD spent by this command.")
    saved_edits: int = Field(description="Edits skipped because their chain's result was known.")
    paused: str = Field(description="Why the run paused (exit code 3); empty if it did not.")


@dataclass(frozen=True)
class PlayedFolder:
    """A run folder after playing; `pause` is set if the run did not finish."""

    folder: RunFolder
    spent: float
    pause: Paused | None = None
    hooks: Hooks = field(default_factory=Hooks)

    @property
    def summary(self) -> PlayedRun:
        folder = self.folder
        return PlayedRun(
            run=str(folder.path),
            editor=folder.header.editor,
            suite=folder.suite.slug,
            chains=len(folder.chains),
            edits=folder.edits_done,
            outcomes=Counter(chain.outcome for chain in folder.chains.values()),
            spent=round(self.spent, 4),
            saved_edits=saved_edits(folder),
            paused=str(self.pause or ""),
        )


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the settings and limits of playing."""
    money = parser.add_argument_group("limits on cost, in USD")
    money.add_argument(
        "--budget", type=dollars, metavar="USD", help="pause before the cost exceeds this"
    )
    money.add_argument(
        "--price", type=dollars, metavar="USD", help="price of one edit, if the editor states none"
    )
    money.add_argument(
        "--max-edits",
        type=at_least_one,
        metavar="N",
        help="pause after this many edits, including retries",
    )
    money.add_argument(
        "--yes", action="store_true", help="do not ask for confirmation before spending money"
    )
    parser.add_argument(
        "--stop-after",
        type=_stop_after,
        default=0,
        metavar="K",
        help="score while playing, and stop a chain K trips after its result is known at every "
        "threshold (3 is a good number); usable trips and half-life equal those of a full run",
    )
    parser.add_argument("--parallel", type=at_least_one, metavar="N", help="chains played at once")
    parser.add_argument(
        "--attempts", type=at_least_one, default=5, help="attempts per edit (default: 5)"
    )


def play_options(args: argparse.Namespace) -> PlayOptions:
    """Return the settings and limits that these arguments give."""
    return PlayOptions(
        parallel=args.parallel,
        attempts=args.attempts,
        budget=args.budget,
        price=args.price,
        max_edits=args.max_edits,
        stop_after=args.stop_after,
    )


def _stop_after(text: str) -> int:
    number = at_least_one(text)
    if number > MAX_STOP_AFTER:
        raise argparse.ArgumentTypeError(f"at most {MAX_STOP_AFTER}")
    return number


def settings(chosen: ChosenEditor, options: PlayOptions) -> dict[str, Any]:
    """Return the settings of a new run folder."""
    return {
        "editor": chosen.kind,
        "options": chosen.options,
        "secret": options.secret,
        "arm": options.arm,
        "name": chosen.name,
        "slug": chosen.slug,
        "stop_after": options.stop_after,
    }


def open_run(out: Path, suite: Suite, chosen: ChosenEditor, options: PlayOptions) -> RunFolder:
    """Open the run in `out` or create it. Raises CommandError if `out` has a different run."""
    if not (out / "run.json").is_file():
        return RunFolder.create(out, suite, **settings(chosen, options))
    folder = RunFolder.open(out)
    expected: dict[str, Any] = {"editor": chosen.kind, "options": chosen.options}
    if options.secret:
        expected["secret"] = options.secret
    if options.stop_after:
        expected["stop_after"] = options.stop_after
    for name, value in expected.items():
        if (stated := getattr(folder.header, name)) != value:
            raise CommandError(
                f"{out} is a run with {name} {stated!r}, not {value!r}; choose another --out"
            )
    if folder.arm != options.arm:
        raise CommandError(
            f"{out} is a run with the settings ({folder.arm}), not ({options.arm}); "
            "choose another --out"
        )
    if folder.suite.content_hash != suite.content_hash:
        raise CommandError(
            f"{out} is a run of another suite, {folder.suite.slug} with {folder.suite.trips} trips "
            f"({folder.suite.content_hash[:12]}); choose another --out"
        )
    return folder


def play_run(
    folder: RunFolder,
    chosen: ChosenEditor,
    options: PlayOptions,
    *,
    ask: Callable[[Estimate], None] = lambda expected: None,
    hooks: Hooks | None = None,
) -> PlayedFolder:
    """Play the remaining chains, after printing and confirming the estimate."""
    hooks = hooks or Hooks()
    with folder.playing():
        player = new_player(folder, chosen, options)
        hooks.begin(folder)
        paused = None
        try:
            if player.store.waiting:
                ask(_announce(player, chosen))
                _play(player, hooks)
                folder.header.ended = datetime.now(UTC).isoformat(timespec="seconds")
        except Paused as pause:
            paused = pause
        except BaseException:
            hooks.end(None)
            raise
    return PlayedFolder(folder, player.store.spent, paused, hooks)


def new_player(folder: RunFolder, chosen: ChosenEditor, options: PlayOptions) -> FolderPlayer:
    """Return the player of the folder, after recording the provenance in its header."""
    folder.header.provenance = {
        "convergebench": __version__,
        "python": sys.version.partition(" ")[0],
        "editor": chosen.editor.describe(),
    }
    return folder_player(
        folder,
        chosen.editor,
        parallel=options.parallel or chosen.in_flight,
        limits=Limits(attempts=options.attempts),
        budget=options.budget,
        price=options.price_of(chosen),
        max_edits=options.max_edits,
        share=options.shard.share(folder.chains) if options.shard else None,
        audits=plan(folder.secret, folder.suite) if options.audits else (),
    )


def _announce(player: FolderPlayer, chosen: ChosenEditor) -> Estimate:
    """Print the estimate and return it."""
    expected = estimate_remaining(player, chosen)
    note(f"{chosen.name}: {expected}")
    budget = player.store.budget
    if budget is not None and player.store.spent + (expected.usd or 0) > budget:
        note(f"the budget of ${budget:,.2f} does not cover the whole run: the run will pause")
    return expected


def estimate_remaining(player: FolderPlayer, chosen: ChosenEditor) -> Estimate:
    """Estimate the cost and time of the remaining chains and their audits."""
    folder, waiting = player.store.folder, player.store.waiting
    audits = sum(len(player.store.pending_audits(chain)) for chain in waiting)
    done = [edit.seconds for chain in folder.chains.values() for edit in chain.edits]
    return estimate(
        sum(folder.edits_left(chain) for chain in waiting) + audits,
        0.0 if chosen.is_free else player.store.price,
        sum(done) / len(done) if done else (0.2 if chosen.is_free else None),
        player.parallel,
        calls_per_minute=chosen.calls_per_minute,
        chains=max(1, len(waiting)),
        stop_after=folder.header.stop_after,
    )


def _play(player: FolderPlayer, hooks: Hooks) -> None:
    store, folder = player.store, player.store.folder
    left = sum(folder.edits_left(chain) for chain in store.waiting)
    done = folder.edits_done
    bar = progress(done + left, folder.name, "edit", initial=done)

    def failed(slug: str, attempt: Attempt) -> None:
        if isinstance(attempt.result, EditorError):
            note(f"{slug}, attempt {attempt.number}: {attempt.result.message}")

    def answered(chain: PlayedChain) -> None:
        bar.update()
        if not chain.open_steps:
            hooks.on_trip(chain)
        if store.spent:
            bar.set_postfix_str(f"${store.spent:,.2f}", refresh=False)

    store.on_answer, store.on_attempt = answered, failed
    player.on_interrupt = lambda: note(
        "stopping after the edits in flight (press Ctrl-C again to drop them)"
    )
    try:
        if folder.header.stop_after:
            play_in_rounds(player, new_scorer(None))
        else:
            player.play()
    finally:
        bar.close()


def confirm_cost(expected: Estimate) -> None:
    """Ask for confirmation before money is spent. Raises CommandError if it is refused."""
    if (expected.usd or ASK_FROM) < ASK_FROM:
        return
    if not sys.stdin.isatty():
        raise CommandError("this may cost money: add --yes to start without confirmation")
    sys.stderr.write("Play? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("cancelled: nothing was played")


def raise_pause(runs: Sequence[PlayedFolder]) -> None:
    """Raise Paused if a run did not finish."""
    paused = [(played.folder.name, played.pause) for played in runs if played.pause]
    if len(runs) > 1 and paused:
        raise Paused("; ".join(f"{name}: {pause}" for name, pause in paused))
    if paused:
        raise paused[0][1]
