"""Detect added or missing everyday things (CenterNet, trained on COCO)."""

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
from evaluation.caches import LruCache
from evaluation.content.suites import EditPair
from evaluation.metrics.base import CELLS, Box, Mask
from evaluation.metrics.networks.tfjs_graph import Graph
from evaluation.witnesses.base import AmountWitness, Evidence, TripToJudge, Witness, requested_thing

WEIGHTS = "coco-detector"
SIDE, CELL = 512, 4
# Peaks below this confidence are noise.
MIN_CONFIDENCE = 0.1
# Boxes of one class that overlap by at least this share are one thing.
SAME_THING = 0.5
# The number of cached images: each restored image is needed again as the next trip's start.
CACHED_IMAGES = 64
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
class Detection:
    """A detected thing: class, confidence, and box in fractions of the image."""

    name: str
    confidence: float
    box: Box

    @property
    def area(self) -> float:
        left, top, right, bottom = self.box
        return max(0.0, right - left) * max(0.0, bottom - top)


class Detector:
    """Detect things, one image at a time."""

    def __init__(self) -> None:
        self._graph = Graph(weights.locate(WEIGHTS)[0].read_bytes())
        self._cache = LruCache[list[Detection]](CACHED_IMAGES)
        # One image at a time, because activations take much more memory than the network.
        self._lock = Lock()

    def things(self, image: Image.Image) -> list[Detection]:
        """Return all things in the image, most confident first."""
        small = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        key = sha256(small.tobytes()).digest()
        with self._lock:
            return self._cache.get(key, lambda: self._detect(small))

    def _detect(self, small: Image.Image) -> list[Detection]:
        import torch
        from torch.nn.functional import max_pool2d

        inputs = torch.from_numpy(np.asarray(small, dtype=np.float32))[None]
        heat, sizes = self._graph.run(
            {"tower_0/images": inputs}, ["tower_0/keypoints", "tower_0/wh"]
        )
        planes = heat.permute(0, 3, 1, 2)
        peaks = ((max_pool2d(planes, 3, 1, 1) == planes) & (planes >= MIN_CONFIDENCE))[0].nonzero()
        things = []
        for kind, row, column in peaks.tolist():
            left, top, right, bottom = sizes[0, row, column].tolist()
            box = (
                max(0.0, (column * CELL - left) / SIDE),
                max(0.0, (row * CELL - top) / SIDE),
                min(1.0, (column * CELL + right) / SIDE),
                min(1.0, (row * CELL + bottom) / SIDE),
            )
            things.append(Detection(NAMES[kind], float(planes[0, kind, row, column]), box))
        return _once_each(sorted(things, key=lambda thing: -thing.confidence))


def _once_each(things: Sequence[Detection]) -> list[Detection]:
    """Drop things that overlap with a more confident thing of the same class."""
    distinct: list[Detection] = []
    for thing in things:
        same_class = (other for other in distinct if other.name == thing.name)
        if all(overlap(thing, other) < SAME_THING for other in same_class):
            distinct.append(thing)
    return distinct


def overlap(one: Detection, other: Detection) -> float:
    """Return the intersection of two boxes over their union."""
    left, top = (max(a, b) for a, b in zip(one.box[:2], other.box[:2], strict=True))
    right, bottom = (min(a, b) for a, b in zip(one.box[2:], other.box[2:], strict=True))
    shared = max(0.0, right - left) * max(0.0, bottom - top)
    union = one.area + other.area - shared
    return shared / union if union else 0.0


@cache
def detector() -> Detector:
    """Return the process-wide detector."""
    return Detector()


class CocoDetector(AmountWitness):
    """Count the requested things, weighted by confidence.

    The detector misses most drawn things. So this witness can confirm an edit, but not deny it.
    """

    name, label, version = "detector", "an object detector", "centernet-coco-2"
    licence = "MIT"
    can = "that one of 80 kinds of everyday things was added"
    cannot = (
        "that a thing is absent: it overlooked 13 of 21 drawn things, so it gives a verdict only "
        "if it sees the thing; in 1 of 19 cases it took a red ball for the requested thing"
    )
    weights = WEIGHTS
    modules = {"torch": "torch"}
    min_increase = dict.fromkeys(NAMES, 0.2)

    def thing(self, pair: EditPair) -> str | None:
        thing = requested_thing(pair, self.name) or requested_thing(pair, "imagenet") or pair.object
        return thing if thing in NAMES else None

    def amount(self, image: Image.Image, thing: str, trip: TripToJudge) -> float | None:
        return sum(
            detected.confidence for detected in detector().things(image) if detected.name == thing
        )

    def examine(self, trip: TripToJudge) -> Evidence | None:
        evidence = super().examine(trip)
        return evidence if evidence and evidence.made else None


# From SOURCE_CONFIDENCE on, a thing in the source is expected in the restored image. In that
# image, anything at its position with RESTORED_CONFIDENCE is enough.
SOURCE_CONFIDENCE, RESTORED_CONFIDENCE = 0.45, 0.15
# Two boxes count as being at one position from this overlap on.
OVERLAP = 0.3
# Things smaller than this share of the image are ignored, as they are detected unreliably.
MIN_AREA = 0.01


class Rest(Witness):
    """Check that the things detected in the source are still in the restored image."""

    name, label, version = "rest", "an object detector", "centernet-coco-rest-1"
    licence = "MIT"
    can = "people and everyday things outside the edit that are missing in the restored image"
    cannot = "things that the detector did not find in the source with high confidence"
    weights = WEIGHTS
    modules = {"torch": "torch"}

    def examine(self, trip: TripToJudge) -> Evidence | None:
        if trip.restored is None:
            return None
        expected = [
            thing
            for thing in detector().things(trip.source.decoded)
            if thing.confidence >= SOURCE_CONFIDENCE
            and thing.area >= MIN_AREA
            and not _is_in_edit(thing, trip.subject.footprint)
            and thing.name != trip.pair.object
        ]
        if not expected:
            return None
        restored = detector().things(trip.restored.decoded)
        gone = [
            thing for thing in expected if not any(_is_same(thing, other) for other in restored)
        ]
        return Evidence(
            self.name,
            self.version,
            "what else was there",
            made=None,
            undone=None,
            gates=False,
            amounts=(float(len(expected)), float(len(expected) - len(gone))),
            kept=not gone,
            said=f"{_listed(gone)} gone" if gone else "",
        )


def _is_same(one: Detection, other: Detection) -> bool:
    """Return True if `other` is at the position of `one`; their classes may differ."""
    return other.confidence >= RESTORED_CONFIDENCE and overlap(one, other) >= OVERLAP


def _is_in_edit(one: Detection, footprint: Mask | None) -> bool:
    """Return True if most of the thing is inside the edit's footprint."""
    if footprint is None:
        return False
    left, top, right, bottom = (round(share * CELLS) for share in one.box)
    inside = footprint[top : max(bottom, top + 1), left : max(right, left + 1)]
    return bool(inside.size) and float(inside.mean()) > 0.5


def _listed(things: Sequence[Detection]) -> str:
    counts = Counter(thing.name for thing in things)
    return ", ".join(name if n == 1 else f"{n} x {name}" for name, n in counts.items())
