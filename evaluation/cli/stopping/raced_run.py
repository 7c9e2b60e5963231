"""Race a run folder: play it in rounds, and stop once what was asked of its rank is settled.

The same rule as on the site (`evaluation.analysis.racing`): the run's secret deals the cases
into rounds, a look after each round but the last lays the run beside its rivals, and the looks
share what they may err by.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.analysis.half_life import summary_and_values
from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.analysis.power import suite_cases
from evaluation.analysis.racing import ALPHA, MOST_ROUNDS, Look, Race, RaceError, look
from evaluation.cli.commands.score import new_scorer
from evaluation.cli.folder_store import FolderPlayer
from evaluation.cli.printing import CommandError, note
from evaluation.cli.run_folder import RunFolder
from evaluation.cli.run_scores import RunScores, read_scores, score_run
from evaluation.cli.stopping.rivals import Headline, Rivals
from evaluation.cli.stopping.stopped_run import Rounds, stop_after
from evaluation.content.suites import Suite
from evaluation.measuring.scoring import Scorer


def parse_race(text: str, rounds: int) -> Race:
    """ "top:3" or "width:2", in so many rounds; RaceError for anything else."""
    goal, _, number = text.partition(":")
    if not number.isascii() or not number.isdigit():
        raise RaceError(f"{text!r} is not a race like top:3 or width:2")
    return Race(goal, int(number[:9]), rounds)


def add_race(parser: argparse.ArgumentParser) -> None:
    """The arguments that say when a run may end because its rank is settled."""
    group = parser.add_argument_group("a race: stop when the rank is settled")
    group.add_argument(
        "--race",
        metavar="GOAL:N",
        help="play in rounds and stop once it is known whether the model is among the best N "
        f"(top:N), or its rank to within N (width:N); wrong in at most {100 * ALPHA:.0f} of 100 races. A "
        "run that ended early is not ranked",
    )
    group.add_argument(
        "--against",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN",
        help="the runs it is compared with: scored folders of the same suite, or bundles",
    )
    group.add_argument(
        "--rounds", type=int, default=8, metavar="N", help=f"of a race, 2 to {MOST_ROUNDS} (8)"
    )


def asked_race(args: argparse.Namespace, suite: Suite) -> tuple[Race | None, Rivals | None]:
    """The race that was asked for, and its rivals where some are named; CommandError if it cannot be."""
    if not args.race:
        if args.against:
            raise CommandError("--against is of a race: say --race top:3, for example")
        return None, None
    if args.shard or args.floor:
        other = "--shard" if args.shard else "--floor"
        raise CommandError(f"--race does not go with {other}: a race is of one whole run")
    race = parse_race(args.race, args.rounds)
    if not args.against:
        return race, None
    return race, Rivals.of(args.against, suite, Headline.of(new_scorer(None)))


def begin_race(folder: RunFolder, race: Race | None, rivals: Rivals | None) -> None:
    """Make a run that nothing was played of a race, or see that it is this one."""
    if race is None:
        return
    if folder.race is None and not any(chain.halves for chain in folder.chains.values()):
        if rivals is None:
            raise CommandError("name the runs that the race is against with --against")
        rivals.keep(folder)
        folder.race = race
        folder.header |= {"race": race.to_dict(), "race_looks": []}
        folder.save()
    elif folder.race != race:
        was = f"raced {folder.race}" if folder.race else "not raced"
        raise CommandError(f"{folder.path} is a run that is {was}; choose another --out")
    elif rivals and rivals != Rivals.read(folder):
        raise CommandError(
            f"{folder.path} is raced against other runs ({', '.join(Rivals.read(folder).usable_trips)}); "
            "leave out --against to go on, or choose another --out"
        )


def say_look(found: Look, race: Race) -> None:
    """What a look found, on standard error."""
    interval = found.interval
    between = f" ({interval.low:.1f} to {interval.high:.1f})" if interval else ""
    ranks = f"{found.low}" if found.low == found.high else f"{found.low} to {found.high}"
    note(
        f"round {found.round} of {race.rounds}: {found.usable_trips:.1f} usable trips{between} on "
        f"{found.cases} cases, rank {ranks} of {found.runs + 1}"
        + (f"; settled: {found.settled}" if found.settled else "")
    )


def race_saved(folder: RunFolder) -> int:
    """Edits that were not asked for because the race was settled."""
    if not folder.race_ended:
        return 0
    suite, played = folder.suite, {chain.case for chain in folder.chains.values()}
    return sum(
        folder.arm.repeats_of(suite.repeats_of(case)) * suite.edits_of(case)
        for case in suite.cases
        if case.slug not in played
    )


def race_told(folder: RunFolder) -> dict[str, Any]:
    """What a run's record says of its race, ready for JSON; empty where it is not raced."""
    if folder.race is None:
        return {}
    return {
        **folder.race.to_dict(),
        "looks": folder.header["race_looks"],
        "stopped": bool(folder.race_ended),
        "ended": folder.race_ended,
        "saved_edits": race_saved(folder),
    }


@dataclass
class RacedRun:
    """Plays a run round by round; `on_look` is told what each look found."""

    player: FolderPlayer
    scorer: Scorer
    on_look: Callable[[Look], None] = lambda look: None

    def __post_init__(self) -> None:
        self.folder = self.player.store.folder
        if self.folder.race is None:
            raise CommandError(f"{self.folder.path} is not raced")
        self.race: Race = self.folder.race
        self.rivals = Rivals.read(self.folder)
        if (here := Headline.of(self.scorer)) != self.rivals.headline:
            raise CommandError(
                f"{self.folder.path} is raced by {self.rivals.headline.metric} "
                f"{self.rivals.headline.version}; here is {here.metric} {here.version}: race anew"
            )

    @property
    def round(self) -> int:
        """The round that is played now, from 1."""
        looks = self.folder.header["race_looks"]
        return looks[-1]["round"] + 1 if looks else 1

    def play(self) -> None:
        """Until the race is settled or every case is played; raises what `Player.play` raises."""
        folder = self.folder
        while not folder.race_ended:
            self.player.store.share = {
                chain.slug
                for chain in folder.chains.values()
                if folder.rounds[chain.case] <= self.round
            }
            if stop_after(folder):
                Rounds(self.player, self.scorer).play()
            elif self.player.store.waiting:
                self.player.play()
            if self.round >= self.race.rounds:
                return
            self.look()

    def look(self) -> None:
        """Score what is there, and see what it settles; a race that is settled ends here."""
        folder, suite = self.folder, self.folder.suite
        scores, cases = self._scored(), suite_cases(suite)
        chains = scores.results(suite, self.rivals.headline.metric)
        if not chains:
            raise CommandError(
                f"no metric says anything of {folder.path}: its race cannot be looked at"
            )
        values = summary_and_values(chains, suite.trips, DEFAULT_LEVEL)[1]
        table = np.column_stack([self.rivals.columns, values.aligned(cases)])
        found = look(self.race, self.round, cases, table, suite.trips)
        folder.header["race_looks"] = [*folder.header["race_looks"], found.to_dict()]
        if found.settled:
            folder.end_race()
            self._scored()  # what was left is not in it any more
        else:
            folder.save()
        self.on_look(found)

    def _scored(self) -> RunScores:
        def keep(scores: RunScores) -> None:
            self.folder.write_json("scores.json", scores.to_dict())

        before = read_scores(self.folder)
        scores = score_run(self.folder, self.scorer, before, on_chain=keep, begun=True)
        keep(scores)
        return scores
