"""The end of a chain of round trips at a threshold of retention: its time and its cause."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.content.suites import Suite, origin_of
from evaluation.metrics.parts import PARTS

COMPLETED, LOST = "completed", "lost"
# Stopped early, because more trips would not change the result (evaluation.analysis.stopping).
KNOWN, CONVERGED = "known", "converged"
STOPPED = (KNOWN, CONVERGED)
# The model gave no usable image: the chain ends, and its image counts as unusable from then on.
BROKEN = ("refused", "blank", "failed")
OUTCOMES = (COMPLETED, *STOPPED, *BROKEN, LOST)

#: The cause of a fall by a metric that is not a part of the headline (`overall`).
WHOLE = "whole"
#: The causes of a fall to the threshold: the headline's part that lost most, or WHOLE.
CROSSINGS = (*(part.name for part in PARTS), WHOLE)
#: Every cause that ends a chain, with its display text.
CAUSES: Mapping[str, str] = {
    **{part.name: part.ended for part in PARTS},
    WHOLE: "the whole image lost quality",
    "not_made": "the edit was not made",
    "not_the_edit": "it was not the edit asked for",
    "not_undone": "the edit was not undone",
    "refused": "the model refused",
    "blank": "the image was blank",
    "failed": "the model failed",
}
# Retention is a quotient of floats, which may exceed 1 by rounding.
TOLERANCE = 1e-9


def crossing_cause(metric: str) -> str:
    """Return the cause of a fall by this metric: its name for a headline part, else "whole"."""
    return metric if metric in CROSSINGS else WHOLE


#: Results are broken down by these attributes of a case.
BREAKDOWNS = ("category", "kind", "origin", "pair")


class Case(NamedTuple):
    """A case of a suite, with the attributes by which results are broken down."""

    image: str
    pair: str
    category: str
    kind: str
    origin: str

    @classmethod
    def of(cls, suite: Suite, image: str, pair: str) -> Self:
        """Return a case of a suite by the slugs of its image and pair."""
        shown = suite.image_by_slug[image]
        category = suite.pair_by_slug[pair].category
        return cls(image, pair, category, shown.kind, origin_of(shown))

    def __str__(self) -> str:
        return f"{self.image}--{self.pair}"

    @property
    def scopes(self) -> tuple[str, ...]:
        """Return the scopes (parts of a suite, such as "kind:photo") that contain this case."""
        return ("all", *(f"{name}:{getattr(self, name)}" for name in BREAKDOWNS))


@dataclass(frozen=True)
class ChainResult:
    """One chain scored by one metric: `retention` is Q(1..n) of its trips.

    Unless `outcome` is "completed", trip n + 1 has no restored image. The model caused "refused",
    "blank" and "failed"; "lost" means that the benchmark interrupted the chain. Chains with "known"
    or "converged" were stopped early; the last trip of a converged chain is repeated.

    The other tuples have one flag per trip, None if not judged: `change_seen` is judged from
    pixels, `made` and `undone` by witnesses that may end a chain, `edits_made` and `edits_undone`
    by all witnesses. Flags of the forward edit may include trip n + 1. `because` names the part of
    the headline that lost most in each trip. If it is empty, a fall to the threshold has the cause
    `cause`.
    """

    image: str
    pair: str
    category: str
    kind: str
    origin: str
    repeat: int
    retention: tuple[float, ...]
    outcome: str = COMPLETED
    change_seen: tuple[bool | None, ...] = ()
    reframed: tuple[bool, ...] = ()
    because: tuple[str, ...] = ()
    cause: str = WHOLE
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
            raise ValueError(f"{self.case}: there are more flags than begun trips")
        if len(self.undone) > trips:
            raise ValueError(
                f"{self.case}: undone has {len(self.undone)} flags for {trips} restored images"
            )
        if self.because and len(self.because) != trips:
            raise ValueError(
                f"{self.case}: because has {len(self.because)} names for {trips} trips"
            )
        for cause in {self.cause, *self.because}:
            if cause not in CROSSINGS:
                raise ValueError(f"{self.case}: unknown cause {cause!r}")

    @cached_property
    def case(self) -> Case:
        return Case(self.image, self.pair, self.category, self.kind, self.origin)

    @property
    def key(self) -> tuple[str, str, int]:
        return self.image, self.pair, self.repeat

    @property
    def played(self) -> bool:
        """Return False if the chain was interrupted before its first trip."""
        return self.outcome != LOST or bool(self.retention)

    def is_decided(self, trips: int, threshold: float = DEFAULT_THRESHOLD) -> bool:
        """Return False if the chain was stopped before its end at this threshold was known."""
        if self.outcome != KNOWN:
            return True
        end = event(self, trips, threshold)
        return end.cause is not None or end.time >= trips

    @property
    def gate(self) -> tuple[int, str] | None:
        """Return the first trip whose edit was not made or not undone, with the cause."""
        gates = [
            (flags.index(False) + 1, index, cause)
            for index, (flags, cause) in enumerate(
                (
                    (self.change_seen, "not_made"),
                    (self.made, "not_the_edit"),
                    (self.undone, "not_undone"),
                )
            )
            if False in flags
        ]
        if not gates:
            return None
        number, _, cause = min(gates)
        return number, cause


@dataclass(frozen=True)
class Event:
    """The time and cause of a chain's end; censored if `cause` is None.

    `recovered` is True if the retention rose above the threshold again later.
    """

    time: float
    cause: str | None
    recovered: bool = False


def event(chain: ChainResult, trips: int, threshold: float = DEFAULT_THRESHOLD) -> Event:
    """Return the end of one chain within its first `trips` trips, or its censoring."""
    gate = chain.gate
    last = min(trips, len(chain.retention), gate[0] - 1 if gate else trips)
    before = 1.0
    for index, after in enumerate(chain.retention[:last]):
        if after <= threshold:
            return Event(
                time=index + (before - threshold) / (before - after),
                cause=chain.because[index] if chain.because else chain.cause,
                recovered=any(q > threshold for q in chain.retention[index + 1 : trips]),
            )
        before = after
    if gate and gate[0] == last + 1 <= trips:
        return Event(float(last), gate[1])
    if last == trips:
        return Event(float(trips), None)
    return Event(float(last), chain.outcome if chain.outcome in BROKEN else None)


class EndUnknown(ValueError):
    """Raised if chains were stopped before their end at this threshold was known."""


def events_of(
    chains: Sequence[ChainResult], trips: int, threshold: float = DEFAULT_THRESHOLD
) -> list[Event]:
    """Return the end of each chain.

    Raises EndUnknown if a chain was stopped before its end. Such a chain must not be censored: it
    was stopped because of its results, so the estimate would be biased.
    """
    undecided = [chain for chain in chains if not chain.is_decided(trips, threshold)]
    if undecided:
        raise EndUnknown(
            f"{len(undecided)} of {len(chains)} chains were stopped before they fell to "
            f"{threshold:g} "
            f"by this metric, for example {undecided[0].case}"
        )
    return [event(chain, trips, threshold) for chain in chains]


def check_chains(chains: Sequence[ChainResult], trips: int) -> None:
    """Raise ValueError for an invalid set of chains."""
    if not chains:
        raise ValueError("no chains")
    if trips < 1:
        raise ValueError("a suite has at least one trip")
    twice = [key for key, count in Counter(chain.key for chain in chains).items() if count > 1]
    if twice:
        raise ValueError(f"duplicate chain: {twice[0]} (and {len(twice) - 1} more)")
    for chain in chains:
        if chain.outcome in (COMPLETED, CONVERGED) and len(chain.retention) < trips:
            raise ValueError(
                f"{chain.case} is {chain.outcome}, but has {len(chain.retention)} of {trips} trips"
            )
