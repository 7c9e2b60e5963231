"""Scores restored pictures against their source, for every metric at once."""

from __future__ import annotations

import copy
import hashlib
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from PIL import Image

from evaluation.images import Picture, blank_card, fit
from evaluation.measuring import jpeg
from evaluation.metrics import METRICS, Features, Metric, MetricError, load_metric
from evaluation.metrics.networks.base import NetworkMetric
from evaluation.packages import package_versions

AnyPicture: TypeAlias = Image.Image | Picture

# Pictures decoded and held at a time; the next ones are decoded meanwhile.
BATCH = 8
# A blank card this near is the source itself; to divide by it would say nothing.
FLAT = 1e-9
PACKAGES = (
    "convergebench",
    "numpy",
    "pillow",
    "opencv-python-headless",
    "torch",
    "lpips",
    "open_clip_torch",
    "efficientnet-lite-pytorch",
)


@dataclass(frozen=True)
class Calibration:
    """What a metric says of a source when all is lost, and when it is saved as JPEG."""

    blank: float
    ladder: Mapping[int, float]


def retention(distance: float | None, blank: float | None) -> float | None:
    """Q = 1 - d / d(blank card): 1 is identical, 0 no better than a blank card.

    None where the metric was not run, or where the source is itself a blank card.
    """
    if distance is None or blank is None or blank < FLAT:
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
        self._sources: OrderedDict[bytes, dict[str, Features]] = OrderedDict()
        self._kept = sources

    def score(
        self, source: AnyPicture, restored: Iterable[AnyPicture]
    ) -> dict[str, list[float] | None]:
        """The distances of each restored picture, in order; None for a metric not run.

        Pictures of another size are brought to the source's first. An iterator
        is read a few pictures at a time, so a long chain need not be in memory.
        """
        original = _rgb(source)
        metrics = {n: m for n, m in self.metrics.items() if m.unfit(original.size) is None}
        features = self._prepared(original)
        distances: dict[str, list[float]] = {name: [] for name in metrics}
        with _threads(metrics.values()) as pool:
            for batch in _batches(restored, original.size, pool):
                for name, metric in metrics.items():
                    if name not in features:
                        features[name] = metric.prepare(original)
                    distances[name] += _distances(metric, features[name], batch, pool)
        return {name: distances.get(name) for name in self.names}

    def calibrate(self, source: AnyPicture) -> dict[str, Calibration | None]:
        """Each metric's distance to the blank card and its JPEG ladder; None if not run."""
        original = _rgb(source)
        scores = self.score(original, [blank_card(original), *jpeg.saves(original)])
        return {
            name: Calibration(distances[0], dict(zip(jpeg.QUALITIES, distances[1:], strict=True)))
            if distances
            else None
            for name, distances in scores.items()
        }

    def only(self, names: Iterable[str]) -> Scorer:
        """The same scorer for some of its metrics; networks and features are shared."""
        part = copy.copy(self)
        part.names = list(names)
        part.metrics = {name: m for name, m in self.metrics.items() if name in part.names}
        return part

    def unfit(self, size: tuple[int, int]) -> dict[str, str]:
        """Why each metric that gives None for a source of this size does so."""
        reasons = {name: metric.unfit(size) for name, metric in self.metrics.items()}
        return self.not_run | {name: reason for name, reason in reasons.items() if reason}

    def provenance(self) -> dict[str, Any]:
        """What the numbers depend on: metric versions, weights, devices, packages."""
        return {
            "metrics": {
                name: {
                    "version": metric.version,
                    "weights_sha256": metric.weights_sha256,
                    "device": metric.device if isinstance(metric, NetworkMetric) else "cpu",
                }
                for name, metric in self.metrics.items()
            },
            "not_run": dict(self.not_run),
            "packages": package_versions(PACKAGES),
        }

    def _prepared(self, source: Image.Image) -> dict[str, Features]:
        """What the metrics have made of this source so far, by name; the latest are kept."""
        key = hashlib.sha256(repr(source.size).encode() + source.tobytes()).digest()
        features = self._sources.setdefault(key, {})
        self._sources.move_to_end(key)
        while len(self._sources) > self._kept:
            self._sources.popitem(last=False)
        return features


@contextmanager
def _threads(metrics: Iterable[Metric]) -> Iterator[ThreadPoolExecutor]:
    """A thread per processor; each picture is then the work of one thread, from end to end.

    Two threads inside one convolution wait for each other; two pictures do not. It is the
    difference between keeping two processors busy and not, above all on a busy machine.
    """
    count = min(_processors(), BATCH)
    if not any(isinstance(metric, NetworkMetric) for metric in metrics):
        with ThreadPoolExecutor(count) as pool:
            yield pool
        return
    import torch

    before = torch.get_num_threads()
    share = max(1, before // count)
    pool = ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(share,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)  # new threads elsewhere would inherit the last setting


def _distances(
    metric: Metric, features: Features, images: list[Image.Image], pool: ThreadPoolExecutor
) -> list[float]:
    if isinstance(metric, NetworkMetric) and (metric.device != "cpu" or len(images) == 1):
        return metric.distances(features, images)
    singly = pool.map(lambda image: metric.distances(features, [image]), images)
    return [distance for distances in singly for distance in distances]


def _batches(
    pictures: Iterable[AnyPicture], size: tuple[int, int], pool: ThreadPoolExecutor
) -> Iterator[list[Image.Image]]:
    """The pictures decoded and at the source's size; the next batch is under way meanwhile."""
    rest = iter(pictures)

    def start() -> Iterator[Image.Image] | None:
        few = list(islice(rest, BATCH))
        return pool.map(lambda picture: fit(_rgb(picture), size), few) if few else None

    following = start()
    while following is not None:
        batch, following = following, start()
        yield list(batch)


def _rgb(picture: AnyPicture) -> Image.Image:
    image = picture.image if isinstance(picture, Picture) else picture
    if image.mode != "RGB":
        raise MetricError(
            f"a picture of mode {image.mode} is not in canonical form: "
            "read it with evaluation.images.Picture"
        )
    return image


def _processors() -> int:
    """The processors this process may use; OMP_NUM_THREADS lowers it, as it does for torch."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(count, int(wanted)) if wanted.isdecimal() and int(wanted) else count
