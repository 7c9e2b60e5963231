"""Labels of a chain's failure, by rule.

A level, as in Banana100 (a part of an object, an object, the whole image), and the kinds of
damage in the image at the trip that ended the chain, or at its last trip.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from evaluation.analysis.dynamics import DRIFTING, dynamics
from evaluation.analysis.events import BROKEN, WHOLE, Event
from evaluation.metrics.parts import PARTS
from evaluation.records import TripMeasures

#: Every label with its text; levels first, each chain has at most one of them.
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
# Log ratio of fine detail to the source's.
GRAINY, SMOOTH = math.log(1.35), math.log(0.75)
ZOOMED, SHIFTED = 0.015, 0.015
# Shares of places with other content.
SOMEWHERE, AN_OBJECT, EVERYWHERE = 0.004, 0.025, 0.4
# Share of all changes, since a little is always lost at the border of something new.
MUCH = 0.5


def _crossings(scope: str) -> set[str]:
    """Return the causes of ends by headline parts whose loss is of this scope."""
    return {part.name for part in PARTS if part.scope == scope}


#: The kind of damage that a part of the headline shows by itself.
KIND_OF_CAUSE = {"colour": "colour-cast", "grain": "grain", "framing": "reframing"}
#: Causes by the level of their loss.
OF_OBJECTS = frozenset({"not_made", "not_the_edit", "not_undone", *_crossings("object")})
OF_IMAGES = frozenset({WHOLE, *_crossings("whole-image")})
OF_PLACES = frozenset(_crossings("sub-object"))


def failure_labels(
    trips: Sequence[TripMeasures], ended: Event, steps: Sequence[float] = (), end: float = 0.0
) -> tuple[str, ...]:
    """Return the labels of one chain; none if it is intact or broke before a restored image.

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
    """Return the trip that ended the chain, if it was played; else its last."""
    if ended.cause is None or ended.cause in BROKEN:
        return trips
    return min(trips, math.floor(ended.time) + 1)


def _kinds(trip: TripMeasures, ended: Event) -> set[str]:
    kinds: set[str] = set()
    damage = trip.damage
    if damage:
        if damage["cast"] >= CAST:
            kinds.add("colour-cast")
        if damage["detail"] >= GRAINY:
            kinds.add("grain")
        if damage["detail"] <= SMOOTH:
            kinds.add("smoothing")
        if abs(damage["zoom"] - 1) >= ZOOMED or damage["shift"] >= SHIFTED:
            kinds.add("reframing")
        for name, label in (("lost", "content-loss"), ("invented", "content-invented")):
            if damage[name] >= max(SOMEWHERE, MUCH * damage["changed"]):
                kinds.add(label)
    if trip.reframed:
        kinds.add("reframing")
    if ended.cause in KIND_OF_CAUSE:
        kinds.add(KIND_OF_CAUSE[ended.cause])
    if _gone(trip):
        kinds.add("content-loss")
    if ended.cause == "not_undone" or any(item.get("undone") is False for item in trip.evidence):
        kinds.add("content-invented")
    return kinds


def _gone(trip: TripMeasures) -> bool:
    """Return True if a witness misses something that no prompt asked to change."""
    return any(item.get("kept") is False and item["witness"] != "judge" for item in trip.evidence)


def _level(trip: TripMeasures, ended: Event, kinds: set[str]) -> str | None:
    changed = trip.damage.get("changed", 0.0)
    everywhere = kinds & {"colour-cast", "grain", "smoothing", "reframing"}
    if ended.cause in OF_IMAGES or everywhere or changed >= EVERYWHERE:
        return "whole-image"
    if ended.cause in OF_OBJECTS or changed >= AN_OBJECT or _gone(trip):
        return "object"
    if ended.cause in OF_PLACES or changed >= SOMEWHERE:
        return "sub-object"
    # The rest is drift, or a thing that was not removed.
    return ("object" if "content-invented" in kinds else "whole-image") if kinds else None
