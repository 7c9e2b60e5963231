"""A detector of 80 everyday things (CenterNet, trained on COCO), run by the graph interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from threading import Lock

import numpy as np
from PIL import Image

from evaluation import weights
from evaluation.metrics.base import Box
from evaluation.metrics.networks.tfjs_graph import Graph
from evaluation.remembered import Remembered

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
