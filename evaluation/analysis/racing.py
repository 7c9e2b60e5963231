"""Racing: a run is played in rounds, and ends once what was asked of its rank is settled.

Every round has its share of each category, drawn by the run's secret, so that what is known
after some rounds estimates the whole suite. After each round but the last the run is laid beside
the board's ranked runs, on the cases it has, by the board's own simultaneous intervals of all
differences. Somebody who looks several times errs more often than one who looks once, so the
looks share ALPHA: O'Brien and Fleming's spending function says how much each may add, little at
first, and each look uses its part as if it were alone (Bonferroni). Whatever the looks have in
common, a settled rank is then wrong in at most ALPHA of all races.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any, Self

import numpy as np

from evaluation.analysis.covariance import Design, Interval, t_quantile
from evaluation.analysis.events import Case
from evaluation.analysis.ranking import rank_board
from evaluation.analysis.survival import Floats
from evaluation.errors import UserFacingError
from evaluation.run_secret import shuffled

ALPHA = 0.05
MOST_ROUNDS, MOST_NUMBER = 12, 1_000
DRAWS = 20_000
#: What a look may err by at least: of rarer things 20,000 draws tell too little. A look that
#: is given less settles nothing and leaves its part to the next.
LEAST = 0.001
#: What is asked of a rank, and how a form calls it.
GOALS = {
    "top": "whether it is among the best so many",
    "width": "its rank, to within so many",
}


class RaceError(UserFacingError):
    """A race that cannot be run as it is asked for."""


@dataclass(frozen=True)
class Race:
    """When a run may end: `goal` is one of GOALS, `number` how many, in `rounds` rounds."""

    goal: str
    number: int
    rounds: int = 8

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise RaceError(f"goal is {self.goal!r}: it should be {' or '.join(GOALS)}")
        if not 1 <= self.number <= MOST_NUMBER:
            raise RaceError(f"number is {self.number}: it should be from 1 to {MOST_NUMBER}")
        if not 2 <= self.rounds <= MOST_ROUNDS:
            raise RaceError(f"rounds is {self.rounds}: it should be from 2 to {MOST_ROUNDS}")

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """The race in `told`; RaceError where it is none."""
        try:
            return cls(str(told["goal"]), int(told["number"]), int(told["rounds"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RaceError(f"this is no race: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        wanted = (
            f"it is known whether the model is in the top {self.number}"
            if self.goal == "top"
            else f"its rank is known to within {self.number}"
        )
        return f"in {self.rounds} rounds, until {wanted}"

    def settled(self, low: int, high: int) -> str:
        """What a rank set from `low` to `high` settles, in words; empty where it does not."""
        if self.goal == "width":
            ranks = f"rank {low}" if low == high else f"rank {low} to {high}"
            return ranks if high - low < self.number else ""
        if high <= self.number:
            return f"in the top {self.number}"
        return f"not in the top {self.number}" if low > self.number else ""

    def read_looks(self, rows: Sequence[Mapping[str, Any]]) -> list[Look]:
        """The looks that `Look.to_dict` wrote; RaceError where they are none of this race.

        What each settled is said by its ranks, whatever the row says.
        """
        try:
            looks = [Look.from_dict(row) for row in rows]
        except (
            AttributeError,
            IndexError,
            KeyError,
            TypeError,
            ValueError,
            OverflowError,
        ) as error:
            raise RaceError(f"these are no looks of a race: {error}") from None
        rounds = [look.round for look in looks]
        if rounds != sorted(set(rounds)) or not all(1 <= n < self.rounds for n in rounds):
            raise RaceError(
                f"looks after the rounds {rounds}: there is one after each but the last"
            )
        if not all(1 <= look.low <= look.high <= look.runs + 1 for look in looks):
            raise RaceError("a look has ranks that no model can have")
        if any(self._settles(look) for look in looks[:-1]):
            raise RaceError("a look settled the race, and it went on")
        return [replace(look, settled=self._settles(look)) for look in looks]

    def _settles(self, look: Look) -> str:
        """What a look settles; one that may not err settles nothing."""
        return self.settled(look.low, look.high) if look.alpha and look.interval else ""

    def ended(self, looks: Sequence[Mapping[str, Any]]) -> str:
        """Where a race that ended early did so, and what its last look settled, in words."""
        last = looks[-1]
        return (
            f"raced, stopped after round {last['round']} of {self.rounds}: "
            f"{last['settled']} of the {last['runs'] + 1} models compared"
        )

    def is_true(self, low: int, high: int, rank: int) -> bool:
        """Whether what this rank set settles is true of a model that has this rank."""
        if self.goal == "width":
            return low <= rank <= high
        return (rank <= self.number) == (high <= self.number)


def spending(rounds: int, alpha: float = ALPHA) -> list[float]:
    """By how much the look after each round but the last may err; 0 where it settles nothing."""
    normal = NormalDist()
    limit = normal.inv_cdf(1 - alpha / 2)
    spent, parts = 0.0, []
    for number in range(1, rounds):
        until = 2 * (1 - normal.cdf(limit / math.sqrt(number / (rounds - 1))))
        parts.append(until - spent if until - spent >= LEAST else 0.0)
        spent += parts[-1]
    return parts


def rounds_of(cases: Sequence[tuple[str, str]], rounds: int, secret: str) -> dict[str, int]:
    """The round, from 1, in which each case is played; `cases` are slugs with their categories.

    Each category is dealt out evenly; which category begins with which round differs, so that
    small ones do not all come first.
    """
    found: dict[str, int] = {}
    dealt = 0
    for category in sorted({category for _, category in cases}):
        own = [slug for slug, of in cases if of == category]
        for slug in shuffled(secret, own, lambda slug: f"race/{slug}"):
            found[slug] = dealt % rounds + 1
            dealt += 1
    return found


@dataclass(frozen=True)
class Look:
    """What is known of a raced run after a round; the interval and the ranks hold at 1 - alpha."""

    round: int
    alpha: float
    #: The runs it was compared with, and the cases it has by now.
    runs: int
    cases: int
    usable_trips: float
    interval: Interval | None
    low: int
    high: int
    #: What is settled, in words; empty where nothing is.
    settled: str = ""

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """What `to_dict` wrote."""
        between = row["interval"]
        numbers = (row["alpha"], row["usable_trips"], *(between or ()))
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError("a number is not finite")
        return cls(
            round=int(row["round"]),
            alpha=float(row["alpha"]),
            runs=int(row["runs"]),
            cases=int(row["cases"]),
            usable_trips=float(row["usable_trips"]),
            interval=between and Interval(float(between[0]), float(between[1])),
            low=int(row["low"]),
            high=int(row["high"]),
        )

    def to_dict(self) -> dict[str, Any]:
        interval = self.interval and [self.interval.low, self.interval.high]
        return {**asdict(self), "interval": interval}


def look(race: Race, number: int, cases: Sequence[Case], usable: Floats, trips: int) -> Look:
    """What is known after this round.

    `usable` are the usable trips by case, a column for each run, the raced one's last. Cases
    that somebody lacks are left out.
    """
    whole = np.asarray(~np.isnan(usable).any(axis=1))
    values = usable[whole]
    design = Design([case for case, here in zip(cases, whole, strict=True) if here])
    alpha = spending(race.rounds)[number - 1]
    runs = usable.shape[1]
    mean = float(design.mean(values)[-1]) if len(values) else 0.0
    if not alpha or runs < 2 or not design.enough:
        return Look(number, alpha, runs - 1, int(whole.sum()), mean, None, 1, runs)
    low, high = rank_board(design, values, draws=DRAWS, confidence=1 - alpha).sets[-1]
    interval = interval_of(design, values[:, -1], alpha, trips)
    said = race.settled(low, high)
    return Look(number, alpha, runs - 1, int(whole.sum()), mean, interval, low, high, said)


def interval_of(design: Design, usable: Floats, alpha: float, trips: int) -> Interval:
    """The interval of a run's usable trips that a look gives, from those of its cases."""
    mean = float(design.mean(usable))
    error = float(design.standard_errors(usable[:, None])[0])
    by = t_quantile(1 - alpha / 2, design.freedom) * error
    return Interval(max(0.0, mean - by), min(float(trips), mean + by))
