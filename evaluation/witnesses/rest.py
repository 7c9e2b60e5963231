"""Whether something else is gone: what the source showed outside the edit's place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evaluation.metrics.base import CELLS, Mask
from evaluation.witnesses.base import Evidence, TripToJudge, Witness
from evaluation.witnesses.coco import WEIGHTS, Found, detector, overlap

# A thing of the source counts when it is seen so surely, and is missed when of all that is
# seen in its place nothing is so sure.
SURE, MISSED = 0.45, 0.15
# How much of the two boxes must overlap for it to be the same place.
OVERLAP = 0.3
# Smaller things come and go with the detector's mood; shares of the picture.
LEAST = 0.01


class Rest(Witness):
    """What the detector found in the source, looked for in the return."""

    name, label, version = "rest", "an object detector", "centernet-coco-rest-1"
    licence = "MIT"
    can = "people and everyday things outside the edit’s place that are gone in the return"
    cannot = "what the detector did not surely find in the source"
    weights = WEIGHTS
    modules = {"torch": "torch"}

    def look(self, trip: TripToJudge) -> Evidence | None:
        if trip.returned is None:
            return None
        there = [
            one
            for one in detector().things(trip.source.image)
            if one.sure >= SURE
            and one.area >= LEAST
            and not _in_place(one, trip.subject.footprint)
            and one.name != trip.pair.object
        ]
        if not there:
            return None
        back = detector().things(trip.returned.image)
        gone = [one for one in there if not any(_is_same(one, other) for other in back)]
        return Evidence(
            self.name,
            self.version,
            "what else was there",
            made=None,
            undone=None,
            gates=False,
            amounts=(float(len(there)), float(len(there) - len(gone))),
            kept=not gone,
            said=f"{_listed(gone)} gone" if gone else "",
        )


def _is_same(one: Found, other: Found) -> bool:
    """Whether the other is a thing in its place: of what kind the detector often doubts."""
    return other.sure >= MISSED and overlap(one, other) >= OVERLAP


def _in_place(one: Found, footprint: Mask | None) -> bool:
    """Whether most of it lies where the edit was made."""
    if footprint is None:
        return False
    left, top, right, bottom = (round(share * CELLS) for share in one.box)
    inside = footprint[top : max(bottom, top + 1), left : max(right, left + 1)]
    return bool(inside.size) and float(inside.mean()) > 0.5


def _listed(things: Sequence[Found]) -> str:
    counts = Counter(one.name for one in things)
    return ", ".join(name if n == 1 else f"{n} x {name}" for name, n in counts.items())
