"""Everyday things, by a detector that finds them and counts them."""

from __future__ import annotations

from PIL import Image

from evaluation.content.suites import EditPair
from evaluation.witnesses.base import AmountWitness, Evidence, TripToJudge, asked
from evaluation.witnesses.coco import NAMES, WEIGHTS, detector


class CocoDetector(AmountWitness):
    """How many of the thing asked for the picture shows, each counted as surely as it is seen.

    It misses most drawn things, so that it does not see something says nothing: it vouches for
    edits, and never against one.
    """

    name, label, version = "detector", "an object detector", "centernet-coco-2"
    licence = "MIT"
    can = "that there is one more of 80 everyday things"
    cannot = (
        "that there is not: of 21 drawn things it saw 8, and it took a red ball for one of 19 "
        "other things; it is counted only where it sees something"
    )
    weights = WEIGHTS
    modules = {"torch": "torch"}
    rise = dict.fromkeys(NAMES, 0.2)

    def thing(self, pair: EditPair) -> str | None:
        thing = asked(pair, self.name) or asked(pair, "imagenet") or pair.object
        return thing if thing in NAMES else None

    def amount(self, image: Image.Image, thing: str, trip: TripToJudge) -> float | None:
        return sum(one.sure for one in detector().things(image) if one.name == thing)

    def look(self, trip: TripToJudge) -> Evidence | None:
        found = super().look(trip)
        return found if found and found.made else None
