"""Labels of a chain's failure, by rule.

A level, as Banana100 has them (a part of an object, an object, the whole image), and the
kinds of damage that the picture shows where the chain ended, or at its last trip.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from evaluation.analysis.dynamics import DRIFTING, dynamics
from evaluation.analysis.events import BROKEN, Event
from evaluation.metrics.picture import LOST
from evaluation.records import TripMeasures

#: Every label, as people read it; levels first, each chain has at most one of them.
LABELS: Mapping[str, str] = {
    "sub-object": "a part of an object",
    "object": "an object",
    "whole-image": "the whole image",
    "colour-cast": "colour cast",
    "grain": "grain",
    "smoothing": "smoothing",
    "reframing": "reframing",
    "drift": "drift",
    "content-loss": "content loss",
    "content-invented": "content invented",
}
LEVELS = ("sub-object", "object", "whole-image")

# Median shift of the hues in CIELAB.
CAST = 5.0
# Fine detail beside the source's.
GRAINY, SMOOTH = math.log(1.35), math.log(0.75)
ZOOMED, SHIFTED = 0.015, 0.015
# Shares of the places that show something else.
SOMEWHERE, AN_OBJECT, EVERYWHERE = 0.004, 0.025, 0.4
# Of all that changed, to be told: at the border of something new a little is always lost.
MUCH = 0.5


def _crossings(level: str) -> set[str]:
    """The causes of ends by the parts of the headline whose loss is of this level."""
    return {words.cause for words in LOST.values() if words.level == level}


#: Causes that are about a thing as a whole.
OF_OBJECTS = frozenset({"not_made", "not_the_edit", "not_undone", *_crossings("object")})
OF_IMAGES = frozenset(_crossings("whole-image"))
OF_PLACES = frozenset(_crossings("sub-object"))


def failure_labels(
    trips: Sequence[TripMeasures], ended: Event, steps: Sequence[float] = (), end: float = 0.0
) -> tuple[str, ...]:
    """The labels of one chain; none of one that is well, or that broke before it came back.

    `steps` and `end` as for dynamics.
    """
    number = _looked_at(ended, len(trips))
    if not number:
        return ("object",) if ended.cause in OF_OBJECTS else ()
    trip = trips[number - 1]
    kinds = _kinds(trip, ended)
    if len(steps) > 1 and dynamics(steps, end).regime == DRIFTING:
        kinds.add("drift")
    level = _level(trip, ended, kinds)
    if level is None or (ended.cause in BROKEN and not kinds):
        return ()
    return (level, *(name for name in LABELS if name in kinds))


def label_counts(labels: Iterable[Sequence[str]]) -> dict[str, int]:
    """Count chains by label, in the order of the labels."""
    counts = Counter(name for chain in labels for name in chain)
    return {name: counts[name] for name in LABELS if counts[name]}


def _looked_at(ended: Event, trips: int) -> int:
    """The trip on which the chain ended, as far as there is one; else its last."""
    if ended.cause is None or ended.cause in BROKEN:
        return trips
    return min(trips, math.floor(ended.time) + 1)


def _kinds(trip: TripMeasures, ended: Event) -> set[str]:
    found: set[str] = set()
    damage = trip.damage
    if damage:
        if damage["cast"] >= CAST:
            found.add("colour-cast")
        if damage["detail"] >= GRAINY:
            found.add("grain")
        if damage["detail"] <= SMOOTH:
            found.add("smoothing")
        if abs(damage["zoom"] - 1) >= ZOOMED or damage["shift"] >= SHIFTED:
            found.add("reframing")
        for name, label in (("lost", "content-loss"), ("invented", "content-invented")):
            if damage[name] >= max(SOMEWHERE, MUCH * damage["changed"]):
                found.add(label)
    if trip.reframed:
        found.add("reframing")
    if ended.cause == "colour":
        found.add("colour-cast")
    if _gone(trip):
        found.add("content-loss")
    if ended.cause == "not_undone" or any(one.get("undone") is False for one in trip.evidence):
        found.add("content-invented")
    return found


def _gone(trip: TripMeasures) -> bool:
    """Tell if a witness misses something that no prompt asked to change."""
    return any(one.get("kept") is False and one["witness"] != "judge" for one in trip.evidence)


def _level(trip: TripMeasures, ended: Event, kinds: set[str]) -> str | None:
    changed = trip.damage.get("changed", 0.0)
    everywhere = kinds & {"colour-cast", "grain", "smoothing", "reframing"}
    if ended.cause in OF_IMAGES or everywhere or changed >= EVERYWHERE:
        return "whole-image"
    if ended.cause in OF_OBJECTS or changed >= AN_OBJECT or _gone(trip):
        return "object"
    if ended.cause in OF_PLACES or changed >= SOMEWHERE:
        return "sub-object"
    # What is left is drift, or a thing that stayed.
    return ("object" if "content-invented" in kinds else "whole-image") if kinds else None
