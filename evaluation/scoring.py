"""Scores restored pictures against their source, for every metric at once."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import Any

from PIL import Image

from evaluation import jpeg
from evaluation.images import Picture, blank_card, fit
from evaluation.metrics import METRICS, Features, Metric, load_metric

# How many pictures are held and scored at a time.
BATCH = 8
PACKAGES = ("numpy", "opencv-python-headless", "pillow", "torch", "lpips", "open_clip_torch")


@dataclass(frozen=True)
class Calibration:
    """What a metric says of a source when all is lost, and when it is saved as JPEG."""

    blank: float
    ladder: Mapping[int, float]


def retention(distance: float | None, blank: float | None) -> float | None:
    """Q = 1 - d / d(blank card): 1 is identical, 0 no better than a blank card.

    None where the metric was not run, or where the source is itself a blank card.
    """
    if distance is None or not blank:
        return None
    return 1 - distance / blank


class Scorer:
    """Distances of restored pictures to their source, by every metric that can run here.

    `not_run` says why the others cannot; their scores are None, never 0. The
    features of the last few sources are kept, since a source serves many chains.
    """

    def __init__(self, metrics: Iterable[str] | None = None, *, sources: int = 4) -> None:
        self.names = list(METRICS if metrics is None else dict.fromkeys(metrics))
        self.metrics: dict[str, Metric] = {}
        self.not_run: dict[str, str] = {}
        for name in self.names:
            metric = load_metric(name)
            if reasons := metric.missing():
                self.not_run[name] = "; ".join(reasons)
            else:
                self.metrics[name] = metric
        self._features: OrderedDict[tuple[bytes, str], Features] = OrderedDict()
        self._kept = sources

    def score(
        self, source: Image.Image, restored: Iterable[Image.Image | Picture]
    ) -> dict[str, list[float] | None]:
        """The distances of each restored picture, in order; None for a metric not run.

        Pictures of another size are brought to the source's first. An iterator
        is read a batch at a time, so a long chain need not be in memory.
        """
        metrics = {n: m for n, m in self.metrics.items() if m.unfit(source.size) is None}
        distances: dict[str, list[float]] = {name: [] for name in metrics}
        pictures = iter(restored)
        while batch := [_at(source.size, picture) for picture in islice(pictures, BATCH)]:
            for name, metric in metrics.items():
                distances[name] += metric.distances(self._prepared(metric, source), batch)
        return {name: distances.get(name) for name in self.names}

    def calibrate(self, source: Image.Image) -> dict[str, Calibration | None]:
        """Each metric's distance to the blank card and its JPEG ladder, for this source."""
        scores = self.score(source, [blank_card(source), *jpeg.saves(source)])
        return {
            name: Calibration(distances[0], dict(zip(jpeg.QUALITIES, distances[1:], strict=True)))
            if distances
            else None
            for name, distances in scores.items()
        }

    def unfit(self, size: tuple[int, int]) -> dict[str, str]:
        """Why each metric gives None for a source of this size."""
        reasons = {name: metric.unfit(size) for name, metric in self.metrics.items()}
        return self.not_run | {name: reason for name, reason in reasons.items() if reason}

    def provenance(self) -> dict[str, Any]:
        """What the numbers depend on: metric versions, weights, packages."""
        return {
            "metrics": {
                name: {"version": metric.version, "weights_sha256": metric.weights_sha256}
                for name, metric in self.metrics.items()
            },
            "not_run": dict(self.not_run),
            "packages": {name: found for name in PACKAGES if (found := _version(name))},
        }

    def _prepared(self, metric: Metric, source: Image.Image) -> Features:
        key = _fingerprint(source), metric.name
        if key not in self._features:
            self._features[key] = metric.prepare(source)
        self._features.move_to_end(key)
        while len(self._features) > self._kept * len(self.metrics):
            self._features.popitem(last=False)
        return self._features[key]


def _at(size: tuple[int, int], picture: Image.Image | Picture) -> Image.Image:
    return fit(picture.image if isinstance(picture, Picture) else picture, size)


def _fingerprint(image: Image.Image) -> bytes:
    return hashlib.sha256(repr(image.size).encode() + image.tobytes()).digest()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
