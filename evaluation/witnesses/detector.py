"""Everyday things by a detector (CenterNet, trained on COCO): one more of them, or one gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from threading import Lock

import numpy as np
from PIL import Image

from evaluation import weights
from evaluation.content.suites import EditPair
from evaluation.metrics.base import CELLS, Box, Mask
from evaluation.metrics.networks.tfjs_graph import Graph
from evaluation.remembered import Remembered
from evaluation.witnesses.base import AmountWitness, Evidence, TripToJudge, Witness, asked

WEIGHTS = "coco-detector"
SIDE, CELL = 512, 4
# Peaks below are noise; two boxes of a kind that overlap so much are one thing.
LEAST, SAME = 0.1, 0.5
# Pictures whose things are remembered: each is the end of one trip and the start of the next.
REMEMBERED = 64
NAMES = (
    *("person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat"),
    *("traffic light", "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat"),
    *("dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe", "backpack"),
    *("umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard", "sports ball"),
    *("kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket"),
    *("bottle", "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple"),
    *("sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair"),
    *("couch", "potted plant", "bed", "dining table", "toilet", "tv", "laptop", "mouse"),
    *("remote", "keyboard", "cell phone", "microwave", "oven", "toaster", "sink"),
    *("refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair drier"),
    "toothbrush",
)


@dataclass(frozen=True)
class Found:
    """One thing: what, how surely, and where, as shares of the picture."""

    name: str
    sure: float
    box: Box

    @property
    def area(self) -> float:
        left, top, right, bottom = self.box
        return max(0.0, right - left) * max(0.0, bottom - top)


class Detector:
    """Finds things; one picture at a time."""

    def __init__(self) -> None:
        self._graph = Graph(weights.locate(WEIGHTS)[0].read_bytes())
        self._known = Remembered[list[Found]](REMEMBERED)
        # One picture at a time: what the network holds of one is many times the picture.
        self._lock = Lock()

    def things(self, image: Image.Image) -> list[Found]:
        """All that the picture shows, the surest first."""
        small = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        key = sha256(small.tobytes()).digest()
        with self._lock:
            return self._known.of(key, lambda: self._look(small))

    def _look(self, small: Image.Image) -> list[Found]:
        import torch
        from torch.nn.functional import max_pool2d

        inputs = torch.from_numpy(np.asarray(small, dtype=np.float32))[None]
        heat, sizes = self._graph.run(
            {"tower_0/images": inputs}, ["tower_0/keypoints", "tower_0/wh"]
        )
        planes = heat.permute(0, 3, 1, 2)
        peaks = ((max_pool2d(planes, 3, 1, 1) == planes) & (planes >= LEAST))[0].nonzero()
        found = []
        for kind, row, column in peaks.tolist():
            left, top, right, bottom = sizes[0, row, column].tolist()
            box = (
                max(0.0, (column * CELL - left) / SIDE),
                max(0.0, (row * CELL - top) / SIDE),
                min(1.0, (column * CELL + right) / SIDE),
                min(1.0, (row * CELL + bottom) / SIDE),
            )
            found.append(Found(NAMES[kind], float(planes[0, kind, row, column]), box))
        return _once_each(sorted(found, key=lambda thing: -thing.sure))


def _once_each(things: Sequence[Found]) -> list[Found]:
    """Without those that lie over a surer one of their kind."""
    kept: list[Found] = []
    for one in things:
        alike = (other for other in kept if other.name == one.name)
        if all(overlap(one, other) < SAME for other in alike):
            kept.append(one)
    return kept


def overlap(one: Found, other: Found) -> float:
    """The intersection of two boxes over their union."""
    left, top = (max(a, b) for a, b in zip(one.box[:2], other.box[:2], strict=True))
    right, bottom = (min(a, b) for a, b in zip(one.box[2:], other.box[2:], strict=True))
    shared = max(0.0, right - left) * max(0.0, bottom - top)
    union = one.area + other.area - shared
    return shared / union if union else 0.0


@cache
def detector() -> Detector:
    """The one of this process."""
    return Detector()


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


# A thing of the source counts when it is seen so surely, and is missed when of all that is
# seen in its place nothing is so sure.
SURE, MISSED = 0.45, 0.15
# How much of the two boxes must overlap for it to be the same place.
OVERLAP = 0.3
# Smaller things come and go with the detector's mood; shares of the picture.
LEAST_AREA = 0.01


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
            and one.area >= LEAST_AREA
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
