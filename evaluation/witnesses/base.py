"""Witnesses: automatic checks of whether an edit was made and undone.

"Change seen" only compares pixels, whereas a witness recognises the requested thing. The edit was
made if the edited image shows more of the thing than the image before the edit. The edit was undone
if the restored image shows hardly more of the thing than the source.
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

#: The number of cached images: each restored image is needed again as the next trip's start.
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
    """The evidence of one witness on one trip; a verdict is None if the witness is undecided."""

    witness: str
    version: str
    #: The thing that the witness searched for, in words.
    thing: str
    made: bool | None
    undone: bool | None
    #: True if the verdicts can end a chain, which requires error rates below 5 % (docs/method.md).
    gates: bool
    #: Amounts of the thing in three images: before the edit, edited and restored.
    amounts: tuple[float, ...] = ()
    #: True if `thing`, which was not to be edited, is still in the restored image.
    kept: bool | None = None
    #: A remark for people, such as the names of missing things.
    said: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "amounts": [round(amount, 5) for amount in self.amounts]}


class Witness(Requirements, ABC):
    """A source of evidence on trips; its weights are loaded on first use."""

    name: ClassVar[str]
    #: The label on pages, as in "seen by face parsing".
    label: ClassVar[str]
    #: The version must change whenever the evidence changes.
    version: ClassVar[str]
    licence: ClassVar[str]
    #: What the witness can and cannot see, for readers who do not know the method.
    can: ClassVar[str]
    cannot: ClassVar[str]
    #: Objects (or operators) of pairs whose chains the witness may end: error rates below 5 %.
    gates: ClassVar[frozenset[str]] = frozenset()
    #: The metric whose network the witness uses, if any.
    uses_metric: ClassVar[str] = ""

    @abstractmethod
    def examine(self, trip: TripToJudge) -> Evidence | None:
        """Return the evidence on the trip; None if the witness cannot judge it."""

    def share(self, metrics: Mapping[str, Metric]) -> None:
        """Use the network and cache of the metric `uses_metric`, if it is among the loaded ones."""
        if self.uses_metric in metrics:
            vars(self)["metric"] = metrics[self.uses_metric]


class AmountWitness(Witness):
    """A witness that measures the amount of a thing in an image."""

    #: For each thing, the smallest increase that counts as an edit.
    min_increase: ClassVar[Mapping[str, float]]
    #: For each thing, the amount in the source above which an addition cannot be detected.
    max_in_source: ClassVar[Mapping[str, float]] = {}

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
        return self.min_increase[thing]

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
        if source > self.max_in_source.get(thing, math.inf):
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
        """Combine the evidence of witnesses; with `gating`, only of those that can end a chain.

        An edit counts as made if at least one witness saw it, and as undone only if no witness
        still sees it. In a trip with several edits, every edit must have been made.
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

    Each count has two numbers: trips with the verdict True, trips with any verdict.
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
