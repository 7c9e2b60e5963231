"""The end of a chain: its first passage and the cause."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.metrics.picture import LOST as LOST_BY_PART

COMPLETED, LOST = "completed", "lost"
# Not played to the end, because what is asked is known (evaluation.analysis.stopping).
KNOWN, CONVERGED = "known", "converged"
STOPPED = (KNOWN, CONVERGED)
# The model's own doing: the chain ends, and so does the picture's use.
BROKEN = ("refused", "blank", "failed")
OUTCOMES = (COMPLETED, *STOPPED, *BROKEN, LOST)

#: What fell below the level, by the metric that says so; any other metric judges the whole.
CROSSINGS = tuple(words.cause for words in LOST_BY_PART.values())
#: Every cause that ends a chain, as people read it.
CAUSES: Mapping[str, str] = {
    **{words.cause: words.ended for words in LOST_BY_PART.values()},
    "not_made": "the edit was not made",
    "not_the_edit": "it was not the edit asked for",
    "not_undone": "the edit was not undone",
    "refused": "the model refused",
    "blank": "the picture was blank",
    "failed": "the model failed",
}
# Retention is a quotient of floats: 1 may come out a little above.
TOLERANCE = 1e-9


def crossing_cause(metric: str) -> str:
    """The cause of an end by this metric: itself for place, colour, identity; else the whole."""
    words = LOST_BY_PART.get(metric)
    return words.cause if words else "whole"


class Case(NamedTuple):
    """A case of a suite, with what its results are broken down by."""

    picture: str
    pair: str
    category: str
    kind: str

    def __str__(self) -> str:
        return f"{self.picture}--{self.pair}"

    @property
    def scopes(self) -> tuple[str, ...]:
        """The names of the parts of a suite that this case is in."""
        return ("all", f"category:{self.category}", f"kind:{self.kind}", f"pair:{self.pair}")


@dataclass(frozen=True)
class ChainResult:
    """One chain scored by one metric: Q(1..n) of the trips there are, and how it ended.

    `outcome` other than "completed" means that trip len(retention) + 1 did not
    come back: "refused", "blank" and "failed" are the model's doing, "lost" is
    ours, "known" was not asked for. Of a "converged" chain the trips that were not played
    repeat the last one. By trip: `change_seen` (by pixels), `made` and `undone` (by witnesses that
    may gate), `edits_made` and `edits_undone` (by all witnesses, which end nothing), None
    where it was not judged; `reframed`. The forward half of a trip
    that never came back may still be judged. `because` = by trip, which part of a
    composite metric was smallest; where it is empty, a crossing means `cause`.
    """

    picture: str
    pair: str
    category: str
    kind: str
    repeat: int
    retention: tuple[float, ...]
    outcome: str = COMPLETED
    change_seen: tuple[bool | None, ...] = ()
    reframed: tuple[bool, ...] = ()
    because: tuple[str, ...] = ()
    cause: str = "whole"
    made: tuple[bool | None, ...] = ()
    undone: tuple[bool | None, ...] = ()
    edits_made: tuple[bool | None, ...] = ()
    edits_undone: tuple[bool | None, ...] = ()

    def __post_init__(self) -> None:
        trips = len(self.retention)
        if self.outcome not in OUTCOMES:
            raise ValueError(f"{self.case}: unknown outcome {self.outcome!r}")
        if not all(math.isfinite(q) and q <= 1 + TOLERANCE for q in self.retention):
            raise ValueError(f"{self.case}: retention must be finite and at most 1")
        if max(len(self.change_seen), len(self.made), len(self.reframed)) > trips + 1:
            raise ValueError(f"{self.case}: flags of trips that were never played")
        if len(self.undone) > trips:
            raise ValueError(f"{self.case}: nothing can be undone in a trip that never came back")
        if self.because and len(self.because) != trips:
            raise ValueError(f"{self.case}: {len(self.because)} reasons for {trips} trips")
        for cause in {self.cause, *self.because}:
            if cause not in CROSSINGS:
                raise ValueError(f"{self.case}: unknown cause of a crossing {cause!r}")

    @cached_property
    def case(self) -> Case:
        return Case(self.picture, self.pair, self.category, self.kind)

    @property
    def key(self) -> tuple[str, str, int]:
        return self.picture, self.pair, self.repeat

    @property
    def played(self) -> bool:
        """False for a chain that we lost before its first trip: it says nothing."""
        return self.outcome != LOST or bool(self.retention)

    def tells(self, trips: int, level: float = DEFAULT_LEVEL) -> bool:
        """False where it was stopped before this metric fell to the level: its end is not known."""
        if self.outcome != KNOWN:
            return True
        found = event(self, trips, level)
        return found.cause is not None or found.time >= trips

    @property
    def gate(self) -> tuple[int, str] | None:
        """The first trip whose edit was not made, or not undone, and which of these."""
        found = [
            (flags.index(False) + 1, place, cause)
            for place, (flags, cause) in enumerate(
                (
                    (self.change_seen, "not_made"),
                    (self.made, "not_the_edit"),
                    (self.undone, "not_undone"),
                )
            )
            if False in flags
        ]
        if not found:
            return None
        number, _, cause = min(found)
        return number, cause


@dataclass(frozen=True)
class Event:
    """When a chain stopped being usable, and by what; censored where `cause` is None."""

    time: float
    cause: str | None
    recovered: bool = False


def event(chain: ChainResult, trips: int, level: float = DEFAULT_LEVEL) -> Event:
    """The first passage of one chain, looking at its first `trips` trips only."""
    gate = chain.gate
    last = min(trips, len(chain.retention), gate[0] - 1 if gate else trips)
    before = 1.0
    for place, after in enumerate(chain.retention[:last]):
        if after <= level:
            return Event(
                time=place + (before - level) / (before - after),
                cause=chain.because[place] if chain.because else chain.cause,
                recovered=any(q > level for q in chain.retention[place + 1 : trips]),
            )
        before = after
    if gate and gate[0] == last + 1 <= trips:
        return Event(float(last), gate[1])
    if last == trips:
        return Event(float(trips), None)
    return Event(float(last), chain.outcome if chain.outcome in BROKEN else None)


class NotKnown(ValueError):
    """Chains that were stopped before the event that is asked for."""


def events_of(
    chains: Sequence[ChainResult], trips: int, level: float = DEFAULT_LEVEL
) -> list[Event]:
    """The first passage of each; NotKnown where one was stopped before it.

    To censor such a chain would be wrong: it was stopped because of what it had shown.
    """
    silent = [chain for chain in chains if not chain.tells(trips, level)]
    if silent:
        raise NotKnown(
            f"{len(silent)} of {len(chains)} chains were stopped before they fell to {level:g} "
            f"by this metric, such as {silent[0].case}"
        )
    return [event(chain, trips, level) for chain in chains]


def check(chains: Sequence[ChainResult], trips: int) -> None:
    """Raise ValueError for chains no number should be made of."""
    if not chains:
        raise ValueError("no chains")
    if trips < 1:
        raise ValueError("a suite has at least one trip")
    twice = [key for key, count in Counter(chain.key for chain in chains).items() if count > 1]
    if twice:
        raise ValueError(f"the same chain twice: {twice[0]} (and {len(twice) - 1} more)")
    for chain in chains:
        if chain.outcome in (COMPLETED, CONVERGED) and len(chain.retention) < trips:
            raise ValueError(
                f"{chain.case}: {chain.outcome}, but {len(chain.retention)} of {trips} trips"
            )
