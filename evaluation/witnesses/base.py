"""Witnesses: evidence that an edit was made and undone.

"Change seen" compares pixels; a witness recognises the requested thing. The edit was made if the
edited image shows more of the thing than the image before it. The edit was undone if the restored
image shows no more of the thing than the source.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from PIL import Image

from evaluation.caches import LruCache
from evaluation.content.suites import EditPair
from evaluation.errors import UserFacingError
from evaluation.images import EncodedImage
from evaluation.metrics.base import Metric, Subject
from evaluation.weights import Requirements

#: The number of cached images; a restored image is used again as the start of the next trip.
CACHED_IMAGES = 64


#: An edit is undone if less than this share of the added amount remains.
REMAINING = 0.5


class WitnessError(UserFacingError):
    """A witness cannot run here."""


@dataclass(frozen=True)
class TripToJudge:
    """The images of one trip, with its edit pair and subject."""

    source: EncodedImage
    before: EncodedImage
    edited: EncodedImage
    restored: EncodedImage | None
    pair: EditPair
    subject: Subject = field(default_factory=Subject)


@dataclass(frozen=True)
class Evidence:
    """The evidence of one witness on one trip; verdicts are None if undecided."""

    witness: str
    version: str
    #: The thing that the witness searched for, in words.
    thing: str
    made: bool | None
    undone: bool | None
    #: True if it can end a chain (docs/method.md), which requires an error rate below 5 %.
    gates: bool
    #: Amounts of the thing in the image before, the edited image and the restored image.
    amounts: tuple[float, ...] = ()
    #: True if `thing`, which should not have been edited, is still in the restored image.
    kept: bool | None = None
    #: A remark in words, such as the names of missing things.
    said: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "amounts": [round(amount, 5) for amount in self.amounts]}


class Witness(Requirements, ABC):
    """A source of evidence on trips; its weights are loaded on first use."""

    name: ClassVar[str]
    #: The label on pages, as in "seen by face parsing".
    label: ClassVar[str]
    #: Change it with every change of the evidence.
    version: ClassVar[str]
    licence: ClassVar[str]
    #: Abilities and limits, for readers who do not know the method.
    can: ClassVar[str]
    cannot: ClassVar[str]
    #: Objects (or operators) of pairs for which both error rates are below 5 %.
    gates: ClassVar[frozenset[str]] = frozenset()
    #: The metric whose network it uses, if any.
    uses_metric: ClassVar[str] = ""

    @abstractmethod
    def examine(self, trip: TripToJudge) -> Evidence | None:
        """Return the evidence on the trip; None if the witness cannot judge it."""

    def share(self, metrics: Mapping[str, Metric]) -> None:
        """Share the network and the cache of a loaded metric."""
        if self.uses_metric in metrics:
            vars(self)["metric"] = metrics[self.uses_metric]


class AmountWitness(Witness):
    """A witness that measures the amount of a thing in an image."""

    #: By thing: the smallest increase that counts as an edit.
    rise: ClassVar[Mapping[str, float]]
    #: By thing: the largest amount in the source with which an addition can be detected.
    already: ClassVar[Mapping[str, float]] = {}

    def __init__(self) -> None:
        self._amounts = LruCache[float | None](CACHED_IMAGES)

    @abstractmethod
    def thing(self, pair: EditPair) -> str | None:
        """Return the thing to search for; None if the witness does not know it."""

    @abstractmethod
    def amount(self, image: Image.Image, thing: str, trip: TripToJudge) -> float | None:
        """Return the amount of the thing in the image; None if undecided."""

    def limit(self, thing: str) -> float:
        """Return the smallest increase that counts as an edit."""
        return self.rise[thing]

    def examine(self, trip: TripToJudge) -> Evidence | None:
        thing = self.thing(trip.pair)
        if thing is None:
            return None
        images = [trip.source, trip.before, trip.edited]
        images += [trip.restored] if trip.restored else []
        amounts = [self._cached_amount(image, thing, trip) for image in images]
        if None in amounts:
            return None
        source, before, edited, *rest = (amount for amount in amounts if amount is not None)
        if source > self.already.get(thing, math.inf):
            return None
        limit = self.limit(thing)
        made, undone = edited - before >= limit, None
        # An edit that was not made cannot be undone.
        if rest and made:
            undone = rest[0] - source < max(limit, REMAINING * (edited - source))
        gates = trip.pair.object in self.gates
        return Evidence(
            self.name, self.version, thing, made, undone, gates, (before, edited, *rest)
        )

    def _cached_amount(self, image: EncodedImage, thing: str, trip: TripToJudge) -> float | None:
        footprint = b"" if trip.subject.footprint is None else trip.subject.footprint.tobytes()
        key = image.sha256, thing, trip.subject.face, footprint, trip.source.sha256
        return self._amounts.get(key, lambda: self.amount(image.decoded, thing, trip))


def requested_thing(pair: EditPair, witness: str) -> str | None:
    """Return the thing that the pair requests from this witness ("parsing:glasses")."""
    name, _, thing = pair.witness.partition(":")
    return thing if name == witness else None


@dataclass(frozen=True)
class Verdict:
    """The joint verdict of the witnesses on one trip; None means undecided."""

    made: bool | None
    undone: bool | None

    @classmethod
    def from_evidence(cls, evidence: Iterable[Mapping[str, Any]], *, gating: bool = False) -> Self:
        """Combine the evidence of all witnesses, or with `gating` of those that can end a chain.

        An edit counts as made if one witness saw it, and as undone only if no witness still sees
        it. In a trip of many steps, every edit must have been made.
        """
        counted = [item for item in evidence if item["gates"] or not gating]
        steps: dict[int, list[bool]] = {}
        for item in counted:
            if item["made"] is not None:
                steps.setdefault(item.get("step", 0), []).append(item["made"])
        undone = [item["undone"] for item in counted if item["undone"] is not None]
        made = all(any(answers) for answers in steps.values()) if steps else None
        return cls(made, all(undone) if undone else None)


def count_verdicts(
    trips: Iterable[tuple[str, Sequence[Mapping[str, Any]]]],
) -> dict[str, dict[str, dict[str, list[int]]]]:
    """Count verdicts by category, witness and question ("made", "undone" or "kept").

    Each count is a list of two numbers: positive trips, decided trips.
    """
    by_category: dict[str, dict[str, dict[str, list[int]]]] = {}
    for category, evidence in trips:
        for item in evidence:
            for verdict in ("made", "undone", "kept"):
                if item.get(verdict) is None:
                    continue
                counts = by_category.setdefault(category, {}).setdefault(item["witness"], {})
                count = counts.setdefault(verdict, [0, 0])
                count[0] += bool(item[verdict])
                count[1] += 1
    return by_category
