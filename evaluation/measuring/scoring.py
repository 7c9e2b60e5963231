"""Score restored images against their source, for every metric at once."""

from __future__ import annotations

import copy
import hashlib
import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from PIL import Image

from evaluation.images import EncodedImage, blank_card
from evaluation.measuring.calibration import QUALITIES, Calibration, jpeg_saves
from evaluation.metrics import METRICS, Features, Metric, MetricError, load_metric, metric_class
from evaluation.metrics.base import (
    Box,
    Cells,
    CombinedMetric,
    DirectMetric,
    Found,
    Loss,
    Mask,
    NoReferenceMetric,
    NotApplicable,
    Subject,
    is_large,
)
from evaluation.metrics.batches import (
    AnyImage,
    batch_size,
    batches,
    return_freed_memory,
    rgb,
    threads,
)
from evaluation.metrics.networks.base import NetworkMetric
from evaluation.metrics.place import WorstPlace, grainy
from evaluation.packages import package_versions
from evaluation.witnesses import Panel

# The size of the cache of source features, in pixels of their sources: 150 MB.
KEPT_PIXELS = 1_200_000
#: Images derived from a source to find a metric's scale on it.
REFERENCES: Mapping[str, Callable[[Image.Image], Image.Image]] = {
    "blank": blank_card,
    "grain": grainy,
}
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
class Scores:
    """The scores of one chain; every list has one entry per restored image."""

    #: By full-reference metric; None if it was not run or does not apply to this chain.
    distances: dict[str, list[float] | None]
    #: By metric that runs here: the reason why it does not apply to this chain.
    not_applicable: dict[str, str] = field(default_factory=dict)
    #: The metric with the lowest retention; None if `picture` was not requested.
    because: list[str] | None = None
    #: The place with the lowest retention outside the edit's footprint.
    places: list[WorstPlace] | None = None
    #: Retention inside the footprint; None without one.
    undo: list[float | None] | None = None
    #: The share lost in each of 48 x 48 cells (0: nothing, 1: as on a blank card), on request.
    maps: list[Cells] | None = None
    #: By no-reference metric that ran: values of the source, then of each restored image.
    quality: dict[str, list[float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class RestoredImages:
    """The restored images of one source, with its subject."""

    source: AnyImage
    restored: Iterable[AnyImage]
    subject: Subject | None = None
    #: Footprints by image, if they differ from the subject's; read after all images.
    footprints: Sequence[Mask | None] | None = None


class Scorer:
    """Distances of restored images to their source, by each metric that runs here.

    `not_run` gives the reasons for the others; their scores are None, never 0. The features of
    the last few sources are cached, since a source serves many chains.
    """

    def __init__(
        self,
        metrics: Iterable[str] | None = None,
        *,
        witnesses: Iterable[str] | None = None,
        sources: int = 4,
    ) -> None:
        #: Requested metrics, with and without a reference.
        self.names = list(METRICS if metrics is None else dict.fromkeys(metrics))
        self.not_run: dict[str, str] = {}
        #: Requested metrics and their parts.
        self.metrics: dict[str, Metric] = {}
        for name in _with_parts(self.names):
            metric = load_metric(name)
            if reasons := metric.missing():
                if name in self.names:
                    self.not_run[name] = "; ".join(reasons)
            elif isinstance(metric, CombinedMetric):
                self.metrics[name] = metric.with_parts(self.metrics)
            else:
                self.metrics[name] = metric
        #: The witnesses of every scored trip.
        self.panel = Panel(witnesses, self.metrics)
        #: By size and hash.
        self._sources: OrderedDict[tuple[int, bytes], dict[str, Features]] = OrderedDict()
        self._kept = sources

    def score(
        self,
        source: AnyImage,
        restored: Iterable[AnyImage],
        subject: Subject | None = None,
        *,
        maps: bool = False,
        footprints: Sequence[Mask | None] | None = None,
    ) -> Scores:
        """Return the scores of each restored image by each metric, in order.

        Images of another size are fitted to the source's first. An iterator is read a few
        images at a time, so a long chain need not be in memory.
        """
        chain = RestoredImages(source, restored, subject, footprints)
        return self.score_together([chain], maps=maps)[0]

    def score_together(
        self, chains: Sequence[RestoredImages], *, maps: bool = False
    ) -> list[Scores]:
        """Score several chains whose sources all have one size.

        Their images share batches: a few of each keep all threads, or a GPU, as busy as many
        of one. Raises MetricError if the sizes differ.
        """
        sources = [rgb(chain.source) for chain in chains]
        if not sources:
            return []
        size = sources[0].size
        if any(source.size != size for source in sources):
            raise MetricError("chains are scored together only where their sources have one size")
        if is_large(size):
            return_freed_memory()
        metrics = {
            name: metric
            for name, metric in self.metrics.items()
            if metric.unfit(size) is None or not metric.reference
        }
        scored = [
            _Chain(source, subject, metrics, self._prepared(source, subject.face))
            for source, subject in zip(
                sources, (chain.subject or Subject() for chain in chains), strict=True
            )
        ]
        images = (
            (scored_chain, image)
            for scored_chain, chain in zip(scored, chains, strict=True)
            for image in chain.restored
            if scored_chain.is_new(image)
        )
        with threads(metrics.values(), size) as pool:
            for batch in batches(images, size, batch_size(metrics.values(), size), pool):
                _measure(metrics, batch, pool)
        return [
            scored_chain.scores(self.names, maps, chain.footprints)
            for scored_chain, chain in zip(scored, chains, strict=True)
        ]

    def at_once(self, size: tuple[int, int], pixels: int) -> int:
        """Return the best batch of images of this size, of at most `pixels` in all."""
        several = batch_size(self.metrics.values(), size)
        return max(1, min(several, pixels // math.prod(size)))

    def calibrate(
        self, source: AnyImage, subject: Subject | None = None
    ) -> dict[str, Calibration | None]:
        """Return each metric's scale on this source: its blank card and its JPEG ladder.

        None for a metric that was not run or does not apply to this source. The footprint
        belongs to a chain, not to the source, and is ignored.
        """
        original = rgb(source)
        face = Subject(subject.face) if subject else None
        images = itertools.chain((blank_card(original),), jpeg_saves(original))
        scores = self.only(self.full_reference).score(original, images, face)
        calibrations: dict[str, Calibration | None] = {}
        for name, distances in scores.distances.items():
            if distances is None:
                calibrations[name] = None
                continue
            blank = self.metrics[name].blank
            ladder = dict(zip(QUALITIES, distances[1:], strict=True))
            calibrations[name] = Calibration(distances[0] if blank is None else blank, ladder)
        return calibrations

    def only_face(self, source: AnyImage) -> Box | None:
        """Return the single face of an unannotated source; None without a face metric."""
        image = rgb(source)
        direct = (m for m in self.metrics.values() if isinstance(m, DirectMetric))
        return next((face for metric in direct if (face := metric.only_face(image))), None)

    def only(self, names: Iterable[str]) -> Scorer:
        """Return this scorer for some of its metrics; networks and features are shared."""
        part = copy.copy(self)
        part.names = list(names)
        part.not_run = {name: why for name, why in self.not_run.items() if name in part.names}
        part.metrics = {n: self.metrics[n] for n in _with_parts(part.names) if n in self.metrics}
        return part

    @property
    def full_reference(self) -> list[str]:
        """Return the requested metrics that compare with the source."""
        return [name for name in self.names if metric_class(name).reference]

    @property
    def no_reference(self) -> list[str]:
        """Return the requested metrics that take one image alone."""
        return [name for name in self.names if not metric_class(name).reference]

    def unfit(self, size: tuple[int, int]) -> dict[str, str]:
        """Return the reasons of the metrics that give None for a source of this size."""
        reasons = {name: self.metrics[name].unfit(size) for name in self._running}
        return self.not_run | {name: reason for name, reason in reasons.items() if reason}

    def provenance(self) -> dict[str, Any]:
        """Return the inputs of the numbers: versions, weights, devices, packages."""
        return {
            "metrics": {
                name: {
                    "version": self.metrics[name].version,
                    "weights_sha256": self.metrics[name].weights_sha256,
                    "device": self._device(name),
                    "precision": self._precision(name),
                }
                for name in self._running
            },
            "not_run": dict(self.not_run),
            "witnesses": self.panel.provenance(),
            "packages": package_versions(PACKAGES),
        }

    def versions(self) -> dict[str, tuple[str, str]]:
        """Return version and weights hash of each full-reference metric here."""
        metrics = {n: self.metrics[n] for n in self.full_reference if n in self.metrics}
        return {name: (m.version, m.weights_sha256 or "") for name, m in metrics.items()}

    def uses_network(self, name: str) -> bool:
        """Return True if a metric's numbers come from a network, and so vary by device."""
        return name in self.metrics and self._measuring(name).uses_network

    @property
    def _running(self) -> list[str]:
        return [name for name in self.names if name in self.metrics]

    def _device(self, name: str) -> str:
        network = self._network(name)
        return network.device if network else "cpu"

    def _precision(self, name: str) -> str:
        network = self._network(name)
        return network.precision if network else "float32"

    def _network(self, name: str) -> NetworkMetric | None:
        """Return the network metric that this metric's numbers come from."""
        metric = self._measuring(name)
        return metric if isinstance(metric, NetworkMetric) else None

    def _measuring(self, name: str) -> Metric:
        """Return the metric itself, or the first of its parts."""
        metric = self.metrics[name]
        return self._measuring(metric.parts[0]) if metric.parts else metric

    def _prepared(self, source: Image.Image, face: Box | None) -> dict[str, Features]:
        """Return the cached features of this source, by metric; drop old sources."""
        identity = repr((source.size, face)).encode()
        key = math.prod(source.size), hashlib.sha256(identity + source.tobytes()).digest()
        features = self._sources.setdefault(key, {})
        self._sources.move_to_end(key)
        while len(self._sources) > 1 and (
            len(self._sources) > self._kept
            or sum(pixels for pixels, _ in self._sources) > KEPT_PIXELS
        ):
            self._sources.popitem(last=False)
        return features


class _Chain:
    """One chain during scoring: the losses and values of its images so far."""

    def __init__(
        self,
        source: Image.Image,
        subject: Subject,
        metrics: Mapping[str, Metric],
        features: dict[str, Features],
    ) -> None:
        self.source, self.subject, self.metrics = source, subject, metrics
        #: By no-reference metric: the value of each image.
        self.values: dict[str, list[float | None]] = {
            name: [] for name, metric in metrics.items() if not metric.reference
        }
        # The index of each restored image among the measured images: repeated images are measured
        # once.
        self.order: list[int] = []
        self._places: dict[str, int] = {}
        self.is_large = is_large(source.size)
        # The source's features by metric; missing ones are added and serve the next chain too.
        self.features = features
        self.losses: dict[str, list[Loss]] = {}
        self.needed = _references(metrics)
        self.not_applicable: dict[str, str] = {}
        self.direct: dict[str, DirectMetric] = {}
        for name, metric in metrics.items():
            if not isinstance(metric, DirectMetric):
                continue
            if reason := metric.inapplicable(subject):
                self.not_applicable[name] = reason
            else:
                self.direct[name] = metric
                self.losses[name] = []

    def is_new(self, image: AnyImage) -> bool:
        """Return True if the next return must be measured: no earlier one is the same."""
        key = image.sha256 if isinstance(image, EncodedImage) else str(len(self.order))
        new = key not in self._places
        self.order.append(self._places.setdefault(key, len(self._places)))
        return new

    def _each(self) -> None:
        """Expand values and losses from distinct images to all restored images."""
        self.values = {
            name: [values[place] for place in self.order] for name, values in self.values.items()
        }
        self.losses = {
            name: [losses[place] for place in self.order] for name, losses in self.losses.items()
        }

    def references(self, name: str) -> dict[str, Loss]:
        """Return the losses of the derived images, shared by chains of one source."""
        losses: dict[str, Loss] = self.features.setdefault(f"{name} references", {})
        return losses

    def lacks_references(self, name: str) -> bool:
        return name in self.needed and not self.references(name)

    def scores(
        self,
        names: Sequence[str],
        maps: bool,
        footprints: Sequence[Mask | None] | None = None,
    ) -> Scores:
        """Return all scores, with those of the combined metrics."""
        self._each()
        distances = {
            name: [loss.distance for loss in losses] for name, losses in self.losses.items()
        }
        same = [self.subject.footprint] * len(self.order)
        measured_losses = Found(
            self.losses,
            distances,
            {name: self.references(name) for name in self.needed},
            same if footprints is None else footprints,
            maps,
        )
        findings: dict[str, Any] = {}
        for name, metric in self.metrics.items():
            if not isinstance(metric, CombinedMetric):
                continue
            try:
                combined = metric.combine(measured_losses)
            except NotApplicable as reason:
                self.not_applicable[name] = str(reason)
            else:
                distances[name] = combined.distances
                findings |= combined.findings
        return Scores(
            {name: distances.get(name) for name in names if metric_class(name).reference},
            {name: why for name, why in self.not_applicable.items() if name in names},
            quality={
                name: [self.source_value(name), *values] for name, values in self.values.items()
            },
            **findings,
        )

    def source_value(self, name: str) -> float | None:
        """Return the source's no-reference value, shared by chains of one source."""
        metric = self.metrics[name]
        if name not in self.features and isinstance(metric, NoReferenceMetric):
            self.features[name] = metric.value(self.source)
        value: float | None = self.features[name]
        return value


def _references(metrics: Mapping[str, Metric]) -> dict[str, list[str]]:
    """Return the derived images needed, by metric without a fixed blank value."""
    needed: dict[str, dict[str, None]] = {}
    for metric in metrics.values():
        if isinstance(metric, CombinedMetric):
            for name in metric.parts:
                if name in metrics and metrics[name].blank is None:
                    needed.setdefault(name, {}).update(dict.fromkeys(metric.references))
    return {name: list(drawn) for name, drawn in needed.items()}


_Batch: TypeAlias = Sequence[tuple[_Chain, Image.Image]]


def _measure(metrics: Mapping[str, Metric], batch: _Batch, pool: ThreadPoolExecutor) -> None:
    """Measure a batch and add the results to its chains."""
    # No-reference metrics first, before features of large sources fill the memory.
    for name, metric in metrics.items():
        if isinstance(metric, NoReferenceMetric):
            for chain in dict.fromkeys(chain for chain, _ in batch):
                chain.source_value(name)
            values = pool.map(metric.value, [image for _, image in batch])
            for (chain, _), value in zip(batch, values, strict=True):
                chain.values[name].append(value)
    for name, metric in metrics.items():
        if isinstance(metric, DirectMetric):
            _add_losses(name, metric, [own for own in batch if name in own[0].direct], pool)


def _add_losses(name: str, metric: DirectMetric, batch: _Batch, pool: ThreadPoolExecutor) -> None:
    """Add the losses of the images, in a thread each, or all at once on a GPU."""
    chains = list(dict.fromkeys(chain for chain, _ in batch))
    _prepare(name, metric, chains, pool)
    images = [(chain, image) for chain, image in batch if name in chain.direct]
    if not images:
        return
    drawn = _undrawn_references(name, images)
    measured = [*((chain, image) for chain, _, image in drawn), *images]
    sources = [chain.features[name] for chain, _ in measured]
    views = [metric.view(image, chain.subject) for chain, image in measured]
    on_gpu = isinstance(metric, NetworkMetric) and metric.device != "cpu"
    # A large source goes by tiles, each for all images at once: it passes the network once.
    if on_gpu or len(views) == 1 or (metric.by_tiles and is_large(views[0].size)):
        losses = [*metric.losses(sources, views)]
    else:
        each = pool.map(lambda source, view: metric.losses([source], [view]), sources, views)
        losses = [loss for losses in each for loss in losses]
    for (chain, reference, _), loss in zip(drawn, losses, strict=False):
        chain.references(name)[reference] = loss
    for (chain, _), loss in zip(images, losses[len(drawn) :], strict=True):
        chain.losses[name].append(loss)
    for chain in chains:
        if metric.holds_much and chain.is_large:
            chain.features.pop(name, None)


def _prepare(
    name: str, metric: DirectMetric, chains: Sequence[_Chain], pool: ThreadPoolExecutor
) -> None:
    """Compute a metric's features of each source, once per source, in threads."""
    unprepared = {id(c.features): c for c in chains if name not in c.features}
    views = [metric.view(c.source, c.subject) for c in unprepared.values()]
    alone = len(views) < 2 or (isinstance(metric, NetworkMetric) and metric.device != "cpu")
    prepared = map(metric.prepare, views) if alone else pool.map(metric.prepare, views)
    for chain, features in zip(unprepared.values(), prepared, strict=True):
        chain.features[name] = features
    for chain in chains:
        if chain.features[name] is None:
            chain.not_applicable[name] = metric.not_found
            del chain.direct[name], chain.losses[name]


def _undrawn_references(name: str, batch: _Batch) -> list[tuple[_Chain, str, Image.Image]]:
    """Draw the references that a metric still lacks, once per source: chains may share one."""
    lacking = {id(chain.features): chain for chain, _ in batch if chain.lacks_references(name)}
    return [
        (chain, reference, REFERENCES[reference](chain.source))
        for chain in lacking.values()
        for reference in chain.needed[name]
    ]


def _with_parts(names: Iterable[str]) -> list[str]:
    """Return the metrics, each after its parts."""
    ordered: dict[str, None] = {}
    for name in names:
        ordered |= dict.fromkeys([*_with_parts(metric_class(name).parts), name])
    return list(ordered)
