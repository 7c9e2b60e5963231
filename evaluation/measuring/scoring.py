"""Scores restored pictures against their source, for every metric at once."""

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

from evaluation.images import Picture, blank_card
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
    AnyPicture,
    batch_size,
    batches,
    measured,
    return_freed_memory,
    rgb,
    threads,
)
from evaluation.metrics.networks.base import NetworkMetric
from evaluation.metrics.place import WorstPlace, grainy
from evaluation.packages import package_versions
from evaluation.witnesses import Panel

# Sources whose features are kept: at most so many pixels of them, which is 150 MB.
KEPT_PIXELS = 1_200_000
#: What is drawn from a source to find a metric's scale on it.
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
    """What the metrics say of one chain; every list has one entry per restored picture."""

    #: By full-reference metric; None for one that was not run, or says nothing of this chain.
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
    #: By no-reference metric that ran: values of the source, then of each restored picture.
    quality: dict[str, list[float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Returns:
    """What came back of one source, and what is known of it beside its pixels."""

    source: AnyPicture
    restored: Iterable[AnyPicture]
    subject: Subject | None = None
    #: Of each picture, where not all have the subject's; looked at when all have been read.
    footprints: Sequence[Mask | None] | None = None


class Scorer:
    """Distances of restored pictures to their source, by every metric that can run here.

    `not_run` says why the others cannot; their scores are None, never 0. The
    features of the last few sources are kept, since a source serves many chains.
    """

    def __init__(
        self,
        metrics: Iterable[str] | None = None,
        *,
        witnesses: Iterable[str] | None = None,
        sources: int = 4,
    ) -> None:
        #: Those asked for, with and without a reference.
        self.names = list(METRICS if metrics is None else dict.fromkeys(metrics))
        self.not_run: dict[str, str] = {}
        #: Those asked for, and those they are made of.
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
        #: Heard on every trip that is scored beside the metrics.
        self.panel = Panel(witnesses, self.metrics)
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
        footprints: Sequence[Mask | None] | None = None,
    ) -> Scores:
        """What each metric says of each restored picture, in order.

        Pictures of another size are brought to the source's first. An iterator is read a few
        pictures at a time, so a long chain need not be in memory.
        """
        chain = Returns(source, restored, subject, footprints)
        return self.score_together([chain], maps=maps)[0]

    def score_together(self, chains: Sequence[Returns], *, maps: bool = False) -> list[Scores]:
        """The same of several chains, whose sources all have one size.

        Their pictures share batches: a few of each keep all threads, or a GPU, as busy as many
        of one.
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
        found = [
            _Chain(source, subject, metrics, self._prepared(source, subject.face))
            for source, subject in zip(
                sources, (chain.subject or Subject() for chain in chains), strict=True
            )
        ]
        pictures = (
            (own, picture)
            for own, chain in zip(found, chains, strict=True)
            for picture in chain.restored
            if own.is_new(picture)
        )
        with threads(metrics.values(), size) as pool:
            for batch in batches(pictures, size, batch_size(metrics.values(), size), pool):
                _measure(metrics, batch, pool)
        return [
            own.scores(self.names, maps, chain.footprints)
            for own, chain in zip(found, chains, strict=True)
        ]

    def at_once(self, size: tuple[int, int], pixels: int) -> int:
        """How many pictures of this size are best scored together, of at most so many pixels."""
        several = batch_size(self.metrics.values(), size)
        return max(1, min(several, pixels // math.prod(size)))

    def calibrate(
        self, source: AnyPicture, subject: Subject | None = None
    ) -> dict[str, Calibration | None]:
        """Each metric's scale on this source: where nothing is kept, and its JPEG ladder.

        None for one that was not run, or does not apply to this source. The footprint is
        a chain's, not the source's, and plays no part.
        """
        original = rgb(source)
        face = Subject(subject.face) if subject else None
        pictures = itertools.chain((blank_card(original),), jpeg_saves(original))
        scores = self.only(self.full_reference).score(original, pictures, face)
        found: dict[str, Calibration | None] = {}
        for name, distances in scores.distances.items():
            if distances is None:
                found[name] = None
                continue
            blank = self.metrics[name].blank
            ladder = dict(zip(QUALITIES, distances[1:], strict=True))
            found[name] = Calibration(distances[0] if blank is None else blank, ladder)
        return found

    def only_face(self, source: AnyPicture) -> Box | None:
        """The one face of a source that nobody annotated; None where faces are not looked for."""
        image = rgb(source)
        direct = (m for m in self.metrics.values() if isinstance(m, DirectMetric))
        return next((face for metric in direct if (face := metric.only_face(image))), None)

    def only(self, names: Iterable[str]) -> Scorer:
        """The same scorer for some of its metrics; networks and features are shared."""
        part = copy.copy(self)
        part.names = list(names)
        part.not_run = {name: why for name, why in self.not_run.items() if name in part.names}
        part.metrics = {n: self.metrics[n] for n in _with_parts(part.names) if n in self.metrics}
        return part

    @property
    def full_reference(self) -> list[str]:
        """The metrics asked for that compare with the source."""
        return [name for name in self.names if metric_class(name).reference]

    @property
    def no_reference(self) -> list[str]:
        """The metrics asked for that look at one picture alone."""
        return [name for name in self.names if not metric_class(name).reference]

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
                    "precision": self._precision(name),
                }
                for name in self._running
            },
            "not_run": dict(self.not_run),
            "witnesses": self.panel.provenance(),
            "packages": package_versions(PACKAGES),
        }

    def versions(self) -> dict[str, tuple[str, str]]:
        """Return the version and the hash of the weights of each full-reference metric here."""
        metrics = {n: self.metrics[n] for n in self.full_reference if n in self.metrics}
        return {name: (m.version, m.weights_sha256 or "") for name, m in metrics.items()}

    def uses_network(self, name: str) -> bool:
        """Whether a metric's numbers come from a network, and so from a device's arithmetic."""
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
        """The metric whose network this one's numbers come from."""
        metric = self._measuring(name)
        return metric if isinstance(metric, NetworkMetric) else None

    def _measuring(self, name: str) -> Metric:
        """The metric itself, or the first of those it is made of."""
        metric = self.metrics[name]
        return self._measuring(metric.parts[0]) if metric.parts else metric

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
    ) -> None:
        self.source, self.subject, self.metrics = source, subject, metrics
        #: By no-reference metric, of each picture.
        self.values: dict[str, list[float | None]] = {
            name: [] for name, metric in metrics.items() if not metric.reference
        }
        # Which of the measured pictures each return is: one that came back before is measured once.
        self.order: list[int] = []
        self._places: dict[str, int] = {}
        self.is_large = is_large(source.size)
        # The source's, by metric; what is lacking is added, and serves the next chain too.
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

    def is_new(self, picture: AnyPicture) -> bool:
        """Whether the next return has to be measured: no other before it was the same."""
        known = picture.sha256 if isinstance(picture, Picture) else str(len(self.order))
        new = known not in self._places
        self.order.append(self._places.setdefault(known, len(self._places)))
        return new

    def _each(self) -> None:
        """From here on what was found is of each return, not of each picture among them."""
        self.values = {
            name: [values[place] for place in self.order] for name, values in self.values.items()
        }
        self.losses = {
            name: [losses[place] for place in self.order] for name, losses in self.losses.items()
        }

    def references(self, name: str) -> dict[str, Loss]:
        """By name, the losses of what was drawn from the source; shared by chains of one source."""
        found: dict[str, Loss] = self.features.setdefault(f"{name} references", {})
        return found

    def lacks_references(self, name: str) -> bool:
        return name in self.needed and not self.references(name)

    def scores(
        self,
        names: Sequence[str],
        maps: bool,
        footprints: Sequence[Mask | None] | None = None,
    ) -> Scores:
        """All that was found, with the metrics that are made of others."""
        self._each()
        distances = {
            name: [loss.distance for loss in losses] for name, losses in self.losses.items()
        }
        same = [self.subject.footprint] * len(self.order)
        found = Found(
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
                combined = metric.combine(found)
            except NotApplicable as reason:
                self.not_applicable[name] = str(reason)
            else:
                distances[name] = combined.distances
                findings |= combined.findings
        return Scores(
            {name: distances.get(name) for name in names if metric_class(name).reference},
            {name: why for name, why in self.not_applicable.items() if name in names},
            quality={
                name: [self._source_value(name), *values] for name, values in self.values.items()
            },
            **findings,
        )

    def _source_value(self, name: str) -> float | None:
        """The source's value by a no-reference metric, shared by chains of one source."""
        metric = self.metrics[name]
        if name not in self.features and isinstance(metric, NoReferenceMetric):
            self.features[name] = metric.value(self.source)
        value: float | None = self.features[name]
        return value


def _references(metrics: Mapping[str, Metric]) -> dict[str, list[str]]:
    """By metric without a scale of its own: what others need drawn from the source and measured."""
    found: dict[str, dict[str, None]] = {}
    for metric in metrics.values():
        if isinstance(metric, CombinedMetric):
            for name in metric.parts:
                if name in metrics and metrics[name].blank is None:
                    found.setdefault(name, {}).update(dict.fromkeys(metric.references))
    return {name: list(drawn) for name, drawn in found.items()}


_Batch: TypeAlias = Sequence[tuple[_Chain, Image.Image]]


def _measure(metrics: Mapping[str, Metric], batch: _Batch, pool: ThreadPoolExecutor) -> None:
    """Have each chain take in the pictures of this batch that are its own."""
    chains = list(dict.fromkeys(chain for chain, _ in batch))
    for name, metric in metrics.items():
        if isinstance(metric, NoReferenceMetric):
            values = pool.map(metric.value, [image for _, image in batch])
            for (chain, _), value in zip(batch, values, strict=True):
                chain.values[name].append(value)
        if not isinstance(metric, DirectMetric):
            continue
        _prepare(name, metric, [chain for chain in chains if name in chain.direct], pool)
        own = [(chain, image) for chain, image in batch if name in chain.direct]
        if not own:
            continue
        for (chain, _), loss in zip(own, _losses(name, metric, own, pool), strict=True):
            chain.losses[name].append(loss)
        for chain in chains:
            if metric.holds_much and chain.is_large:
                chain.features.pop(name, None)


def _prepare(
    name: str, metric: DirectMetric, chains: Sequence[_Chain], pool: ThreadPoolExecutor
) -> None:
    """Have what a metric needs of each source, a thread each; of two chains with one source once."""
    lacking = {id(c.features): c for c in chains if name not in c.features}
    views = [metric.view(c.source, c.subject) for c in lacking.values()]
    alone = len(views) < 2 or (isinstance(metric, NetworkMetric) and metric.device != "cpu")
    made = map(metric.prepare, views) if alone else pool.map(metric.prepare, views)
    for chain, features in zip(lacking.values(), made, strict=True):
        chain.features[name] = features
    for chain in chains:
        if chain.features[name] is None:
            chain.not_applicable[name] = metric.not_found
            del chain.direct[name], chain.losses[name]


def _losses(name: str, metric: DirectMetric, batch: _Batch, pool: ThreadPoolExecutor) -> list[Loss]:
    """Losses of the pictures; with the first ones of a source, those of its references."""

    def measure(batch: _Batch) -> list[Loss]:
        sources = [chain.features[name] for chain, _ in batch]
        return [*metric.losses(sources, [image for _, image in batch])]

    # Of a source once, which two chains may share.
    lacking = {
        id(chain.features): chain for chain, _ in batch if chain.lacks_references(name)
    }.values()
    drawn = [
        (chain, REFERENCES[reference](chain.source))
        for chain in lacking
        for reference in chain.needed[name]
    ]
    pictures = [(chain, metric.view(image, chain.subject)) for chain, image in (*drawn, *batch)]
    # Large ones by tiles, each of all pictures at once: it goes through the network once for all.
    together = metric.by_tiles and batch[0][0].is_large
    found = iter(measure(pictures) if together else measured(metric, measure, pictures, pool))
    for chain in lacking:
        chain.references(name).update((each, next(found)) for each in chain.needed[name])
    return list(found)


def _with_parts(names: Iterable[str]) -> list[str]:
    """The metrics and, before each, those it is made of."""
    found: dict[str, None] = {}
    for name in names:
        found |= dict.fromkeys([*_with_parts(metric_class(name).parts), name])
    return list(found)
