"""Score restored images against their source by every metric."""

from __future__ import annotations

import copy
import hashlib
import itertools
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from PIL import Image

from evaluation.images import EncodedImage, blank_card
from evaluation.measuring.calibration import QUALITIES, Calibration, jpeg_saves
from evaluation.metrics import (
    HEADLINE,
    METRICS,
    Features,
    Metric,
    MetricError,
    load_metric,
    metric_class,
)
from evaluation.metrics.base import (
    Box,
    DirectMetric,
    Mask,
    NoReferenceMetric,
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
from evaluation.metrics.parts import Part
from evaluation.packages import package_versions
from evaluation.witnesses import Panel

# The cache of source features holds sources of at most this many pixels in all: about 150 MB.
CACHED_PIXELS = 1_200_000
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
    "transformers",
    "dlib-bin",
)


@dataclass(frozen=True)
class Scores:
    """The scores of one chain; every list has one entry per restored image."""

    #: For each full-reference metric; None if it was not run or does not apply to this chain.
    distances: dict[str, list[float] | None]
    #: The reason, for each metric that runs here but does not apply to this chain.
    not_applicable: dict[str, str] = field(default_factory=dict)
    #: The headline's part that lost most; None if the headline was not run.
    because: list[str] | None = None
    #: The window that lost most according to the part in `because`; None means the whole image.
    windows: list[Box | None] | None = None
    #: Retention of objects and shapes inside the edit's footprint; None without a footprint.
    undo: list[float | None] | None = None
    #: For each no-reference metric that ran: the source's value, then the restored images' values.
    quality: dict[str, list[float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class RestoredImages:
    """The restored images of one chain, with their source and its subject (annotations)."""

    source: AnyImage
    restored: Iterable[AnyImage]
    subject: Subject | None = None
    #: One footprint (region of the edit) per image, if they differ from the subject's footprint.
    #: They are read only after all images.
    footprints: Sequence[Mask | None] | None = None
    #: For each metric, data on the source, as stored with the calibration.
    stored: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Scorer:
    """Measures the distance from restored images to their source by each metric that runs here.

    `not_run` has the other requested metrics, with the reasons why they do not run here; their
    scores are None, never 0. The features of the last few sources are cached, since many chains
    share a source.
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
        #: The requested metrics that run here, and the metrics that they are parts of.
        self.metrics: dict[str, Metric] = {}
        for name in _with_wholes(self.names):
            metric = load_metric(name)
            reasons = metric.missing()
            if metric.part_of and metric.part_of not in self.metrics:
                reasons += load_metric(metric.part_of).missing()
            if not reasons:
                self.metrics[name] = metric
            elif name in self.names:
                self.not_run[name] = "; ".join(dict.fromkeys(reasons))
        #: The witnesses (automatic checks of edits) that judge every scored trip.
        self.panel = Panel(witnesses, self.metrics)
        #: The cached features of sources, by number of pixels and hash.
        self._sources: OrderedDict[tuple[int, bytes], dict[str, Features]] = OrderedDict()
        self._max_sources = sources

    def score(
        self,
        source: AnyImage,
        restored: Iterable[AnyImage],
        subject: Subject | None = None,
        *,
        footprints: Sequence[Mask | None] | None = None,
    ) -> Scores:
        """Return the scores of each restored image by each metric, in order.

        Images are first fitted to the source's size. `restored` is read a few images at a time, so
        that a long chain need not be in memory.
        """
        chain = RestoredImages(source, restored, subject, footprints)
        return self.score_together([chain])[0]

    def score_together(self, chains: Sequence[RestoredImages]) -> list[Scores]:
        """Score several chains whose sources have the same size.

        Images of all chains share batches, which keeps all threads or a GPU busy even if each
        chain has few images. Raises MetricError if the sizes differ.
        """
        sources = [rgb(chain.source) for chain in chains]
        if not sources:
            return []
        size = sources[0].size
        if any(source.size != size for source in sources):
            raise MetricError(
                "chains can be scored together only if their sources have the same size"
            )
        metrics = {
            name: metric
            for name, metric in self.metrics.items()
            if metric.size_problem(size) is None or not metric.reference
        }
        scored = [
            _Chain(source, chain, metrics, self._cached_features(source, chain))
            for source, chain in zip(sources, chains, strict=True)
        ]
        images = (
            (scored_chain, image)
            for scored_chain, chain in zip(scored, chains, strict=True)
            for image in chain.restored
            if scored_chain.is_new(image)
        )
        with threads(metrics.values(), size) as pool:
            for batch in batches(images, size, batch_size(metrics.values(), size), pool):
                for name in _in_order_of_memory(metrics):
                    if is_large(size):
                        return_freed_memory()
                    metric = metrics[name]
                    _measure(name, metric, batch, pool)
                    if is_large(size) and isinstance(metric, NetworkMetric):
                        # To free memory: loading the network again takes far less time than
                        # scoring.
                        metric.unload()
        return [
            scored_chain.scores(self.names, chain.footprints)
            for scored_chain, chain in zip(scored, chains, strict=True)
        ]

    def images_per_batch(self, size: tuple[int, int], pixels: int) -> int:
        """Return how many images of this size to score in one batch, at most `pixels` in total."""
        several = batch_size(self.metrics.values(), size)
        return max(1, min(several, pixels // math.prod(size)))

    def calibrate(
        self, source: AnyImage, subject: Subject | None = None
    ) -> dict[str, Calibration | None]:
        """Return each metric's calibration on this source: distances of a blank card and of JPEGs.

        A metric that was not run or does not apply to this source gets None. The subject's
        footprint is ignored, because it belongs to a chain and not to the source.
        """
        original = rgb(source)
        face = Subject(subject.face) if subject else None
        images = itertools.chain((blank_card(original),), jpeg_saves(original))
        scores = self.only(self.full_reference).score(original, images, face)
        features = self._cached_features(original, RestoredImages(original, (), face))
        calibrations: dict[str, Calibration | None] = {}
        for name, distances in scores.distances.items():
            if distances is None:
                calibrations[name] = None
                continue
            metric = self.metrics[name]
            ladder = dict(zip(QUALITIES, distances[1:], strict=True))
            blank = distances[0] if metric.blank is None else metric.blank
            stored = None
            if isinstance(metric, DirectMetric) and name in features:
                stored = metric.to_store(features[name])
            calibrations[name] = Calibration(blank, ladder, stored)
        return calibrations

    def only_face(self, source: AnyImage) -> Box | None:
        """Return the only face of a source without annotations; None if no face metric runs."""
        image = rgb(source)
        direct = (m for m in self.metrics.values() if isinstance(m, DirectMetric))
        return next((face for metric in direct if (face := metric.only_face(image))), None)

    def only(self, names: Iterable[str]) -> Scorer:
        """Return a scorer for these metrics that shares this scorer's networks and features."""
        part = copy.copy(self)
        part.names = list(names)
        part.not_run = {name: why for name, why in self.not_run.items() if name in part.names}
        part.metrics = {n: self.metrics[n] for n in _with_wholes(part.names) if n in self.metrics}
        return part

    @property
    def full_reference(self) -> list[str]:
        """Return the requested metrics that compare with the source."""
        return [name for name in self.names if metric_class(name).reference]

    @property
    def no_reference(self) -> list[str]:
        """Return the requested metrics that rate a single image."""
        return [name for name in self.names if not metric_class(name).reference]

    def size_problems(self, size: tuple[int, int]) -> dict[str, str]:
        """Return the metrics that cannot score a source of this size, with the reasons."""
        wholes = {name: self.metrics[self.metrics[name].part_of or name] for name in self._running}
        reasons = {name: whole.size_problem(size) for name, whole in wholes.items()}
        return self.not_run | {name: reason for name, reason in reasons.items() if reason}

    def provenance(self) -> dict[str, Any]:
        """Return the versions, weights, devices and packages that produce the scores."""
        return {
            "metrics": {
                name: {
                    "version": self.metrics[name].running_version,
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
        """Return version and weights hash of each full-reference metric that runs here."""
        metrics = {n: self.metrics[n] for n in self.full_reference if n in self.metrics}
        return {name: (m.running_version, m.weights_sha256 or "") for name, m in metrics.items()}

    def uses_network(self, name: str) -> bool:
        """Return True if a metric's scores come from a network, and so depend on the device."""
        return name in self.metrics and self.metrics[name].uses_network

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
        """Return the network metric that computes this metric's scores."""
        metric = self.metrics[self.metrics[name].part_of or name]
        return metric if isinstance(metric, NetworkMetric) else None

    def _cached_features(self, source: Image.Image, chain: RestoredImages) -> dict[str, Features]:
        """Return this source's features so far, by metric; drop the least recently used sources."""
        identity = repr((source.size, chain.subject and chain.subject.face)).encode()
        key = math.prod(source.size), hashlib.sha256(identity + source.tobytes()).digest()
        features = self._sources.setdefault(key, {})
        self._sources.move_to_end(key)
        while len(self._sources) > 1 and (
            len(self._sources) > self._max_sources
            or sum(pixels for pixels, _ in self._sources) > CACHED_PIXELS
        ):
            self._sources.popitem(last=False)
        return features


class _Chain:
    """One chain during scoring: the losses and values of its images so far."""

    def __init__(
        self,
        source: Image.Image,
        restored: RestoredImages,
        metrics: Mapping[str, Metric],
        features: dict[str, Features],
    ) -> None:
        self.source, self.subject = source, restored.subject or Subject()
        self.metrics, self.stored = metrics, restored.stored
        #: For each no-reference metric, the value of each image.
        self.values: dict[str, list[float | None]] = {
            name: [] for name, metric in metrics.items() if not metric.reference
        }
        # Identical images are measured once. For each restored image: the index of its result.
        self.order: list[int] = []
        self._indices: dict[str, int] = {}
        self.is_large = is_large(source.size)
        # The source's features by metric, shared with the scorer's cache.
        self.features = features
        self.losses: dict[str, list[Any]] = {
            name: [] for name, metric in metrics.items() if isinstance(metric, DirectMetric)
        }

    def is_new(self, image: AnyImage) -> bool:
        """Add the next restored image; return True unless an identical one was already added."""
        key = image.sha256 if isinstance(image, EncodedImage) else str(len(self.order))
        new = key not in self._indices
        self.order.append(self._indices.setdefault(key, len(self._indices)))
        return new

    def _expand(self) -> None:
        """Expand values and losses from distinct images to all restored images."""
        self.values = {
            name: [values[index] for index in self.order] for name, values in self.values.items()
        }
        self.losses = {
            name: [losses[index] for index in self.order] for name, losses in self.losses.items()
        }

    def scores(
        self, names: Sequence[str], footprints: Sequence[Mask | None] | None = None
    ) -> Scores:
        """Return all scores, including those of the headline's parts."""
        self._expand()
        distances: dict[str, list[float] | None] = {
            name: [loss.distance for loss in losses] for name, losses in self.losses.items()
        }
        not_applicable: dict[str, str] = {}
        for name, metric in self.metrics.items():
            if isinstance(metric, Part) and metric.part_of in self.losses:
                losses = self.losses[metric.part_of]
                if losses and name not in losses[0].parts:
                    not_applicable[name] = metric.not_found
                else:
                    distances[name] = [metric.loss(loss.parts[name].distance) for loss in losses]
        return Scores(
            {name: distances.get(name) for name in names if metric_class(name).reference},
            {name: why for name, why in not_applicable.items() if name in names},
            quality={
                name: [self.source_value(name), *values] for name, values in self.values.items()
            },
            **self._headline_findings(footprints),
        )

    def _headline_findings(self, footprints: Sequence[Mask | None] | None) -> dict[str, Any]:
        """Return the fields of `Scores` that come from the headline."""
        if HEADLINE not in self.losses:
            return {}
        losses = self.losses[HEADLINE]
        masks = [self.subject.footprint] * len(losses) if footprints is None else footprints
        findings: dict[str, Any] = {
            "because": [loss.because for loss in losses],
            "windows": [loss.window for loss in losses],
        }
        if any(mask is not None and mask.any() for mask in masks):
            findings["undo"] = [
                None if mask is None else loss.retention_within(mask)
                for loss, mask in zip(losses, masks, strict=True)
            ]
        return findings

    def source_value(self, name: str) -> float | None:
        """Return the source's no-reference value, which is cached with its features."""
        metric = self.metrics[name]
        if name not in self.features and isinstance(metric, NoReferenceMetric):
            self.features[name] = metric.value(self.source)
        value: float | None = self.features[name]
        return value


_Batch: TypeAlias = Sequence[tuple[_Chain, Image.Image]]


def _in_order_of_memory(metrics: Mapping[str, Metric]) -> list[str]:
    """Return the metrics, no-reference metrics first: they then run while most memory is free."""
    return sorted(metrics, key=lambda name: metrics[name].reference)


def _measure(name: str, metric: Metric, batch: _Batch, pool: ThreadPoolExecutor) -> None:
    """Measure a batch by one metric and add the results to the chains."""
    if isinstance(metric, DirectMetric):
        _add_losses(name, metric, batch, pool)
    elif isinstance(metric, NoReferenceMetric):
        for chain in dict.fromkeys(chain for chain, _ in batch):
            chain.source_value(name)
        values = pool.map(metric.value, [image for _, image in batch])
        for (chain, _), value in zip(batch, values, strict=True):
            chain.values[name].append(value)


def _add_losses(name: str, metric: DirectMetric, batch: _Batch, pool: ThreadPoolExecutor) -> None:
    """Add the losses of the images: one thread per image on a CPU, one batch on a GPU."""
    chains = list(dict.fromkeys(chain for chain, _ in batch))
    _compute_features(name, metric, chains, pool)
    sources = [chain.features[name] for chain, _ in batch]
    images = [image for _, image in batch]
    if len(images) == 1 or (isinstance(metric, NetworkMetric) and metric.device != "cpu"):
        losses = [*metric.losses(sources, images)]
    else:
        by_image = pool.map(lambda source, image: metric.losses([source], [image]), sources, images)
        losses = [loss for losses in by_image for loss in losses]
    for (chain, _), loss in zip(batch, losses, strict=True):
        chain.losses[name].append(loss)
    for chain in chains:
        if metric.large_features and chain.is_large:
            chain.features.pop(name, None)


def _compute_features(
    name: str, metric: DirectMetric, chains: Sequence[_Chain], pool: ThreadPoolExecutor
) -> None:
    """Compute a metric's features of the sources that lack them; in threads on a CPU."""
    lacking = list({id(c.features): c for c in chains if name not in c.features}.values())

    def features_of(chain: _Chain) -> Features:
        return metric.prepare_subject(chain.source, chain.subject, chain.stored.get(name))

    in_turn = len(lacking) < 2 or (isinstance(metric, NetworkMetric) and metric.device != "cpu")
    computed = map(features_of, lacking) if in_turn else pool.map(features_of, lacking)
    for chain, features in zip(lacking, computed, strict=True):
        chain.features[name] = features


def _with_wholes(names: Iterable[str]) -> list[str]:
    """Return these metrics, and before each part the metric that it belongs to."""
    ordered: dict[str, None] = {}
    for name in names:
        whole = metric_class(name).part_of
        ordered |= dict.fromkeys([whole, name] if whole else [name])
    return list(ordered)
