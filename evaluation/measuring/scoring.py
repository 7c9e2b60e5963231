"""Scores restored pictures against their source, for every metric at once."""

from __future__ import annotations

import copy
import hashlib
import math
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any, TypeAlias, TypeVar

from PIL import Image

from evaluation.images import Picture, blank_card, fit
from evaluation.measuring import jpeg
from evaluation.metrics import METRICS, Features, Metric, MetricError, load_metric, metric_class
from evaluation.metrics.base import Box, Cells, DirectMetric, Mask, Subject
from evaluation.metrics.identity import Identity
from evaluation.metrics.lpips import Loss, Lpips
from evaluation.metrics.networks.base import NetworkMetric
from evaluation.metrics.networks.memory import is_large, return_freed_memory
from evaluation.metrics.picture import WholePicture, least_kept
from evaluation.metrics.place import (
    Scale,
    WorstPlace,
    grainy,
    kept_inside,
    lost_share,
    worst_place,
)
from evaluation.packages import package_versions
from evaluation.quality import QUALITY
from evaluation.quality.panel import QualityPanel
from evaluation.witnesses.panel import Panel

AnyPicture: TypeAlias = Image.Image | Picture
T = TypeVar("T")

# Pictures decoded and held at a time; the next ones are decoded meanwhile, unless they are large.
BATCH, LARGE_BATCH = 8, 4
# Sources whose features are kept: at most so many pixels of them, which is 150 MB.
KEPT_PIXELS = 1_200_000
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
    "scikit-image",
    "dlib-bin",
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


@dataclass(frozen=True)
class Scores:
    """What the metrics say of one chain; every list has one entry per restored picture."""

    #: By metric; None for one that was not run, or says nothing of this chain.
    distances: dict[str, list[float] | None]
    #: Why a metric that runs here says nothing of this chain.
    not_applicable: dict[str, str] = field(default_factory=dict)
    #: The metric by which least of the picture is kept; None where `picture` was not asked for.
    because: list[str] | None = None
    #: Where least is kept outside the edit's footprint, and how much.
    places: list[WorstPlace] | None = None
    #: How much is kept inside the footprint; None without one.
    undo: list[float | None] | None = None
    #: The share lost in each of 48 x 48 cells (0: nothing, 1: as on a blank card), on request.
    maps: list[Cells] | None = None
    #: What each no-reference metric says of the source, then of each restored picture, on request.
    quality: dict[str, list[float | None]] = field(default_factory=dict)


class Scorer:
    """Distances of restored pictures to their source, by every metric that can run here.

    `not_run` says why the others cannot; their scores are None, never 0. The
    features of the last few sources are kept, since a source serves many chains.
    """

    def __init__(self, metrics: Iterable[str] | None = None, *, sources: int = 4) -> None:
        asked = [*METRICS, *QUALITY] if metrics is None else list(dict.fromkeys(metrics))
        self.names = [name for name in asked if name not in QUALITY]
        self.not_run: dict[str, str] = {}
        #: Those asked for, and those they are made of.
        self.metrics: dict[str, Metric] = {}
        for name in _with_parts(self.names):
            metric = load_metric(name)
            if reasons := metric.missing():
                if name in self.names:
                    self.not_run[name] = "; ".join(reasons)
            else:
                self.metrics[name] = metric
        if "picture" in self.metrics:
            self.metrics["picture"] = WholePicture(self.metrics)
        #: Heard on every trip that is scored beside the metrics.
        self.panel = Panel(metrics=self.metrics)
        #: Asked of every return, and of the source, where a chain is scored.
        self.quality = QualityPanel(name for name in asked if name in QUALITY)
        #: By size and hash.
        self._sources: OrderedDict[tuple[int, bytes], dict[str, Features]] = OrderedDict()
        self._kept = sources

    def score(
        self,
        source: AnyPicture,
        restored: Iterable[AnyPicture],
        subject: Subject | None = None,
        *,
        maps: bool = False,
        quality: bool = False,
        footprints: Sequence[Mask | None] | None = None,
    ) -> Scores:
        """What each metric says of each restored picture, in order.

        `footprints` are those of each picture, where not all have the subject's; they are
        looked at when all pictures have been read. Pictures of another size are brought to the source's first. An iterator
        is read a few pictures at a time, so a long chain need not be in memory.
        """
        original, subject = _rgb(source), subject or Subject()
        if is_large(original.size):
            return_freed_memory()
        metrics = {n: m for n, m in self.metrics.items() if m.unfit(original.size) is None}
        panel = self.quality if quality else QualityPanel(())
        found = _Chain(original, subject, metrics, self._prepared(original, subject.face), panel)
        with _threads(metrics.values(), original.size) as pool:
            for batch in _batches(restored, original.size, pool):
                found.measure(batch, pool)
        return found.scores(self.names, maps, footprints)

    def calibrate(
        self, source: AnyPicture, subject: Subject | None = None
    ) -> dict[str, Calibration | None]:
        """Each metric's scale on this source: where nothing is kept, and its JPEG ladder.

        None for one that was not run, or does not apply to this source. The footprint is
        a chain's, not the source's, and plays no part.
        """
        original = _rgb(source)
        face = Subject(subject.face) if subject else None
        saves = jpeg.saves(original)
        scores = self.score(original, chain((blank_card(original),), saves), face)
        found: dict[str, Calibration | None] = {}
        for name, distances in scores.distances.items():
            if distances is None:
                found[name] = None
                continue
            blank = self.metrics[name].blank
            ladder = dict(zip(jpeg.QUALITIES, distances[1:], strict=True))
            found[name] = Calibration(distances[0] if blank is None else blank, ladder)
        return found

    def only_face(self, source: AnyPicture) -> Box | None:
        """The one face of a source that nobody annotated; None where faces are not looked for."""
        identity = self.metrics.get("identity")
        return identity.only_face(_rgb(source)) if isinstance(identity, Identity) else None

    def only(self, names: Iterable[str]) -> Scorer:
        """The same scorer for some of its metrics; networks and features are shared."""
        part = copy.copy(self)
        part.names = list(names)
        part.not_run = {name: why for name, why in self.not_run.items() if name in part.names}
        part.metrics = {n: self.metrics[n] for n in _with_parts(part.names) if n in self.metrics}
        return part

    def unfit(self, size: tuple[int, int]) -> dict[str, str]:
        """Why each metric that gives None for a source of this size does so."""
        reasons = {name: self.metrics[name].unfit(size) for name in self._running}
        return self.not_run | {name: reason for name, reason in reasons.items() if reason}

    def provenance(self) -> dict[str, Any]:
        """What the numbers depend on: metric versions, weights, devices, packages."""
        return {
            "metrics": {
                name: {
                    "version": self.metrics[name].version,
                    "weights_sha256": self.metrics[name].weights_sha256,
                    "device": self._device(name),
                }
                for name in self._running
            },
            "not_run": dict(self.not_run),
            "witnesses": self.panel.provenance(),
            "quality": self.quality.provenance(),
            "packages": package_versions(PACKAGES),
        }

    @property
    def _running(self) -> list[str]:
        return [name for name in self.names if name in self.metrics]

    def _device(self, name: str) -> str:
        metric = self.metrics[name]
        if metric.parts:
            return self._device(metric.parts[0])
        return metric.device if isinstance(metric, NetworkMetric) else "cpu"

    def _prepared(self, source: Image.Image, face: Box | None) -> dict[str, Features]:
        """What the metrics have made of this source so far, by name; the latest are kept."""
        known = repr((source.size, face)).encode()
        key = math.prod(source.size), hashlib.sha256(known + source.tobytes()).digest()
        features = self._sources.setdefault(key, {})
        self._sources.move_to_end(key)
        while len(self._sources) > 1 and (
            len(self._sources) > self._kept
            or sum(pixels for pixels, _ in self._sources) > KEPT_PIXELS
        ):
            self._sources.popitem(last=False)
        return features


class _Chain:
    """One chain while it is scored: what the metrics found in its pictures so far."""

    def __init__(
        self,
        source: Image.Image,
        subject: Subject,
        metrics: Mapping[str, Metric],
        features: dict[str, Features],
        panel: QualityPanel,
    ) -> None:
        self.source, self.subject, self.metrics = source, subject, metrics
        self.panel = panel
        self.quality: list[dict[str, float | None]] = []
        self.is_large = is_large(source.size)
        # The source's, by metric; what is lacking is added, and serves the next chain too.
        self.features = features
        self.distances: dict[str, list[float]] = {}
        self.losses: list[Loss] = []
        self.not_applicable: dict[str, str] = {}
        self.direct: dict[str, DirectMetric] = {}
        for name, metric in metrics.items():
            if not isinstance(metric, DirectMetric):
                continue
            if reason := metric.inapplicable(subject):
                self.not_applicable[name] = reason
            else:
                self.direct[name] = metric
                self.distances[name] = []

    def measure(self, images: list[Image.Image], pool: ThreadPoolExecutor) -> None:
        """Take in the next few restored pictures."""
        if self.panel.metrics:
            self.quality += pool.map(self.panel.values, images)
        for name, metric in list(self.direct.items()):
            if name not in self.features:
                self.features[name] = metric.prepare(metric.view(self.source, self.subject))
            if self.features[name] is None:
                self.not_applicable[name] = "the annotated face is not found in the source"
                del self.direct[name], self.distances[name]
            elif isinstance(metric, Lpips):
                found = self._losses(metric, images, pool)
                self.losses += found
                self.distances[name] += [loss.distance for loss in found]
            else:
                measure = partial(metric.distances, self.features[name])
                views = (metric.view(image, self.subject) for image in images)
                self.distances[name] += _measured(metric, measure, views, pool)
                if metric.holds_much and self.is_large:
                    del self.features[name], measure

    def _losses(
        self, lpips: Lpips, images: list[Image.Image], pool: ThreadPoolExecutor
    ) -> list[Loss]:
        """LPIPS of the pictures; with the first ones, the scale of `place`."""
        measure = partial(lpips.losses, self.features["lpips"])
        # By strips, each of all pictures at once: it goes through the network once for all.
        how = measure if self.is_large else partial(_measured, lpips, measure, pool=pool)
        if "place" not in self.metrics or "place" in self.features:
            return how(images)
        card, grain, *found = how([blank_card(self.source), grainy(self.source), *images])
        self.features["place"] = card.distance, Scale(card.cells, grain.cells)
        return found

    def scores(
        self,
        names: Sequence[str],
        maps: bool,
        footprints: Sequence[Mask | None] | None = None,
    ) -> Scores:
        """All that was found, with the metrics that are made of others."""
        places = undo = cells = because = None
        # Nothing where there was no picture to measure.
        blank, scale = self.features.get("place", (None, None))
        where = [self.subject.footprint] * len(self.losses) if footprints is None else footprints
        measured = list(zip(self.losses, where, strict=True)) if self.losses else []
        if blank is not None and blank < FLAT:
            self.not_applicable |= dict.fromkeys(("place", "picture"), "the source is one colour")
        elif "place" in self.metrics:
            places = [worst_place(loss.cells, scale, mask) for loss, mask in measured]
            self.distances["place"] = [max(0.0, 1 - place.kept) for place in places]
            if any(mask is not None and mask.any() for mask in where):
                undo = [
                    None if mask is None else kept_inside(loss.cells, scale, mask)
                    for loss, mask in measured
                ]
            if maps:
                cells = [lost_share(loss.cells, scale) for loss in self.losses]
            if "picture" in self.metrics:
                least = least_kept(self._retentions())
                self.distances["picture"] = [max(0.0, 1 - trip.kept) for trip in least]
                because = [trip.because for trip in least]
        return Scores(
            {name: self.distances.get(name) for name in names},
            {name: why for name, why in self.not_applicable.items() if name in names},
            because,
            places,
            undo,
            cells,
            self._qualities(),
        )

    def _qualities(self) -> dict[str, list[float | None]]:
        """By no-reference metric: of the source, then of each picture."""
        if self.panel.metrics and "quality" not in self.features:
            self.features["quality"] = self.panel.values(self.source)
        found = [self.features.get("quality", {}), *self.quality]
        return {name: [values[name] for values in found] for name in self.panel.metrics}

    def _retentions(self) -> dict[str, list[float]]:
        """What each part of `picture` says is kept, trip by trip."""
        blank, _ = self.features.get("place", (None, None))
        return {
            name: [1 - d / (self.metrics[name].blank or blank) for d in distances]
            for name, distances in self.distances.items()
            if name in WholePicture.parts
        }


def _with_parts(names: Iterable[str]) -> list[str]:
    """The metrics and, before each, those it is made of."""
    found: dict[str, None] = {}
    for name in names:
        found |= dict.fromkeys([*_with_parts(metric_class(name).parts), name])
    return list(found)


@contextmanager
def _threads(metrics: Iterable[Metric], size: tuple[int, int]) -> Iterator[ThreadPoolExecutor]:
    """A thread per processor; each picture is then the work of one thread, from end to end.

    Two threads inside one convolution wait for each other; two pictures do not. It is the
    difference between keeping two processors busy and not, above all on a busy machine.
    """
    count = 1 if is_large(size) else min(_processors(), BATCH)
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


def _measured(
    metric: DirectMetric,
    measure: Callable[[Sequence[Image.Image]], list[T]],
    images: Iterable[Image.Image],
    pool: ThreadPoolExecutor,
) -> list[T]:
    """What the metric says of each picture: a thread each, or all at once on a GPU."""
    images = list(images)
    if isinstance(metric, NetworkMetric) and (metric.device != "cpu" or len(images) == 1):
        return measure(images)
    return [found for few in pool.map(lambda image: measure([image]), images) for found in few]


def _batches(
    pictures: Iterable[AnyPicture], size: tuple[int, int], pool: ThreadPoolExecutor
) -> Iterator[list[Image.Image]]:
    """The pictures decoded and at the source's size; the next batch is under way meanwhile."""
    rest = iter(pictures)
    if is_large(size):
        while few := [fit(_rgb(picture), size) for picture in islice(rest, LARGE_BATCH)]:
            yield few
            del few
        return

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
