"""CLIP's direction: did the picture move the way that the words moved?"""

from __future__ import annotations

from functools import cached_property

from evaluation.metrics.clip import Clip
from evaluation.witnesses.base import Evidence, TripToJudge, Witness

# The cosine that edits of good data sets are said to have at least; one of nothing is about 0.
# Never measured here, where no CLIP can be had: it is heard, and gates nothing.
TOWARDS = 0.1


class ClipDirection(Witness):
    """The cosine between the step of the pictures and the step of their descriptions."""

    name, label, version = "clip", "CLIP’s direction", f"{Clip.version}-direction-1"
    licence = "MIT"
    can = "any pair that describes its picture before and after the edit in words"
    cannot = (
        "small things, counts, left and right; it runs only where somebody supplies CLIP, and how "
        "often it errs was not measured"
    )
    weights = Clip.weights
    modules = Clip.modules
    looks_with = "clip"

    def look(self, trip: TripToJudge) -> Evidence | None:
        before, after = trip.pair.source_text, trip.pair.target_text
        if not before or not after:
            return None
        there = self.metric.direction(trip.before.image, trip.edited.image, before, after)
        # A picture that did not move at all did not move that way.
        amounts: tuple[float, ...] = (there or 0.0,)
        made, undone = amounts[0] >= TOWARDS, None
        if made and trip.returned:
            back = self.metric.direction(trip.edited.image, trip.returned.image, after, before)
            amounts = (*amounts, back or 0.0)
            undone = amounts[1] >= TOWARDS
        return Evidence(self.name, self.version, after, made, undone, gates=False, amounts=amounts)

    @cached_property
    def metric(self) -> Clip:
        return Clip()
