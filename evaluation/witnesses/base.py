"""What every witness offers: how much of the thing asked for a picture shows.

"Change seen" sees pixels; a witness knows the thing. The edit was made where the edited
picture shows more of it than the picture before, and undone where the picture that came
back shows no more of it than the source.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from PIL import Image

from evaluation.content.suites import EditPair
from evaluation.errors import UserFacingError
from evaluation.images import Picture
from evaluation.metrics.base import Metric, Subject
from evaluation.remembered import Remembered
from evaluation.weights import Requirements

#: Pictures whose amounts are remembered: each is the end of one trip and the start of the next.
REMEMBERED = 64


#: The edit is not undone while so much of what it brought is left.
LEFT = 0.5


class WitnessError(UserFacingError):
    """A witness that cannot look here."""


@dataclass(frozen=True)
class TripToJudge:
    """One trip's pictures, and what is known beside their pixels."""

    source: Picture
    before: Picture
    edited: Picture
    returned: Picture | None
    pair: EditPair
    subject: Subject = field(default_factory=Subject)


@dataclass(frozen=True)
class Evidence:
    """What one witness says of one trip; None where it cannot tell."""

    witness: str
    version: str
    #: What it looked for, in words.
    thing: str
    made: bool | None
    undone: bool | None
    #: Whether its word ends a chain (method §4): only of one that errs in less than 5 %.
    gates: bool
    #: How much of the thing the picture before, the edited and the returned one show.
    amounts: tuple[float, ...] = ()
    #: Whether what nobody asked to change (`thing`) is still there when the picture is back.
    kept: bool | None = None
    #: What it adds in words, such as what is gone.
    said: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "amounts": [round(amount, 5) for amount in self.amounts]}


class Witness(Requirements, ABC):
    """One that can tell something of a trip; its weights load when it first looks."""

    name: ClassVar[str]
    #: As people read it: "seen by face parsing".
    label: ClassVar[str]
    #: Changes whenever an answer can change.
    version: ClassVar[str]
    licence: ClassVar[str]
    #: What it can tell, and what it cannot, for people who have never heard of it.
    can: ClassVar[str]
    cannot: ClassVar[str]
    #: The objects (or the operators) of pairs of which it errs in less than 5 %, on both sides.
    gates: ClassVar[frozenset[str]] = frozenset()
    #: The metric whose network it looks with, where it looks with a metric's.
    looks_with: ClassVar[str] = ""

    @abstractmethod
    def look(self, trip: TripToJudge) -> Evidence | None:
        """What it says of the trip; None where it knows nothing of what was asked."""

    def share(self, metrics: Mapping[str, Metric]) -> None:
        """Look with the network of a metric that is here already, and with what it has seen."""
        if self.looks_with in metrics:
            vars(self)["metric"] = metrics[self.looks_with]


class AmountWitness(Witness):
    """One that tells how much of a thing a picture shows."""

    #: So much more of a thing is evidence of it.
    rise: ClassVar[Mapping[str, float]]
    #: Of a source that shows more of a thing it cannot tell whether more was added.
    already: ClassVar[Mapping[str, float]] = {}

    def __init__(self) -> None:
        self._amounts = Remembered[float | None](REMEMBERED)

    @abstractmethod
    def thing(self, pair: EditPair) -> str | None:
        """What it would look for; None where the pair asks for something it does not know."""

    @abstractmethod
    def amount(self, image: Image.Image, thing: str, trip: TripToJudge) -> float | None:
        """How much of the thing the picture shows; None where it cannot tell."""

    def limit(self, thing: str) -> float:
        """How much more of the thing is evidence of it."""
        return self.rise[thing]

    def look(self, trip: TripToJudge) -> Evidence | None:
        thing = self.thing(trip.pair)
        if thing is None:
            return None
        pictures = [trip.source, trip.before, trip.edited]
        pictures += [trip.returned] if trip.returned else []
        found = [self._remembered(picture, thing, trip) for picture in pictures]
        if None in found:
            return None
        source, before, edited, *rest = (amount for amount in found if amount is not None)
        if source > self.already.get(thing, math.inf):
            return None
        limit = self.limit(thing)
        made, undone = edited - before >= limit, None
        # Of an edit that was never made there is nothing to undo.
        if rest and made:
            undone = rest[0] - source < max(limit, LEFT * (edited - source))
        gates = trip.pair.object in self.gates
        return Evidence(
            self.name, self.version, thing, made, undone, gates, (before, edited, *rest)
        )

    def _remembered(self, picture: Picture, thing: str, trip: TripToJudge) -> float | None:
        where = b"" if trip.subject.footprint is None else trip.subject.footprint.tobytes()
        key = picture.sha256, thing, trip.subject.face, where, trip.source.sha256
        return self._amounts.of(key, lambda: self.amount(picture.image, thing, trip))


def asked(pair: EditPair, witness: str) -> str | None:
    """What the pair says that this witness should look for ("parsing:glasses")."""
    name, _, thing = pair.witness.partition(":")
    return thing if name == witness else None


@dataclass(frozen=True)
class Verdict:
    """What the witnesses say together of one trip; None where none of them could tell."""

    made: bool | None
    undone: bool | None

    @classmethod
    def of(cls, evidence: Iterable[Mapping[str, Any]], *, gating: bool = False) -> Self:
        """By all, or by those alone whose word ends a chain.

        One that sees the thing is enough for it to be there, in the edited picture and in
        the one that came back. Of a trip of many steps each edit must have been made.
        """
        heard = [one for one in evidence if one["gates"] or not gating]
        steps: dict[int, list[bool]] = {}
        for one in heard:
            if one["made"] is not None:
                steps.setdefault(one.get("step", 0), []).append(one["made"])
        undone = [one["undone"] for one in heard if one["undone"] is not None]
        made = all(any(said) for said in steps.values()) if steps else None
        return cls(made, all(undone) if undone else None)


def heard_by_category(
    trips: Iterable[tuple[str, Sequence[Mapping[str, Any]]]],
) -> dict[str, dict[str, dict[str, list[int]]]]:
    """By category and witness: in how many trips it said so, of how many in which it could tell.

    Of each half ("made", "undone") and of what nobody asked to change ("kept").
    """
    found: dict[str, dict[str, dict[str, list[int]]]] = {}
    for category, evidence in trips:
        for one in evidence:
            for what in ("made", "undone", "kept"):
                if one.get(what) is None:
                    continue
                counts = found.setdefault(category, {}).setdefault(one["witness"], {})
                said = counts.setdefault(what, [0, 0])
                said[0] += bool(one[what])
                said[1] += 1
    return found
