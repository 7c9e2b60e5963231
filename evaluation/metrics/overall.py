"""The headline metric: an image's retention, which combines nine kinds of damage (parts).

Q = 1 / (1 + the sum of (distance / half point)² over the parts). Parts that do not apply to a
source are left out, such as the face part without a face.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from PIL import Image

from evaluation import weights
from evaluation.images import blank_card
from evaluation.metrics.base import Box, Features, Loss, Mask, Subject, finite
from evaluation.metrics.networks.base import NetworkMetric
from evaluation.metrics.networks.dinov2 import dinov2, patches
from evaluation.metrics.networks.faces import faces
from evaluation.metrics.parts import PARTS, Face, Object, Part, PartLoss, Shape, SourceViews
from evaluation.metrics.views import (
    OBJECT_LAYER,
    SHAPE_LAYER,
    Comparison,
    Floats,
    Source,
    Tokens,
    View,
    harmless_copies,
    register,
)

LAYERS = (SHAPE_LAYER, OBJECT_LAYER)
# The share of a patch that must be inside a footprint (an edit's region) for the patch to count.
MOSTLY = 0.5


@dataclass(frozen=True)
class OverallLoss(Loss):
    """The headline's distance of one image, and the distance of each part."""

    parts: Mapping[str, PartLoss] = field(default_factory=dict)
    #: The part with the largest term.
    because: str = ""
    #: To judge whether an edit was undone: changes by patch, and measurements of the source.
    changes: Mapping[int, Floats] = field(default_factory=dict, repr=False)
    prepared: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def window(self) -> Box | None:
        """The window of the part with the largest term; None for the whole image."""
        return self.parts[self.because].window if self.parts else None

    def retention_within(self, footprint: Mask) -> float | None:
        """Return the retention of objects and shapes in a footprint; None if it is empty."""
        import cv2

        rows, columns = self.changes[OBJECT_LAYER].shape
        shares = cv2.resize(
            footprint.astype(np.float32), (columns, rows), interpolation=cv2.INTER_AREA
        )
        region = np.asarray(shares > MOSTLY)
        if not region.any():
            return None
        terms = (
            part.within(self.changes, self.prepared[part.name], region) / part.half
            for part in (Object(), Shape())
        )
        return 1 / (1 + sum(term**2 for term in terms))


def version_of(parts: Iterable[Part | type[Part]]) -> str:
    """Return the version, which depends on every part and its half point."""
    stated = {part.name: f"{part.name} {part.version} {part.half}" for part in parts}
    without = "".join(f"-no-{part.name}" for part in PARTS if part.name not in stated)
    return f"dinov2-448-{sha256(' '.join(stated.values()).encode()).hexdigest()[:6]}{without}"


class Overall(NetworkMetric):
    """The headline metric over the parts that can run here."""

    name, label, version = "overall", "Overall", version_of(PARTS)
    looks_at = "all visible damage"
    higher_is_better, digits, blank = True, 2, 1.0
    modules = {
        "torch": "torch",
        "transformers": "transformers",
        "safetensors": "safetensors",
        "cv2": "opencv-python-headless",
        "skimage": "scikit-image",
    }
    weights = "dinov2-small"
    #: At this length of the shorter side, a window spans about half of that side.
    smallest = 32

    @cached_property
    def parts(self) -> list[Part]:
        """The parts that can run here; face and text need networks of their own."""
        loaded = [part() for part in PARTS]
        return [part for part in loaded if not part.selective or not part.missing()]

    @property
    def running_version(self) -> str:
        return version_of(self.parts)

    @property
    def weights_sha256(self) -> str | None:
        """One hash of all weights; None if the weights of DINOv2 are missing."""
        dinov2_sha256 = weights.WEIGHTS.load(self.weights).status().sha256
        hashes = [dinov2_sha256, *(part.weights_sha256 for part in self.parts if part.selective)]
        return dinov2_sha256 and sha256(" ".join(map(str, hashes)).encode()).hexdigest()

    def load(self) -> Any:
        return dinov2(weights.locate(self.weights)[0])

    def only_face(self, image: Image.Image) -> Box | None:
        finds_faces = any(part.name == Face.name for part in self.parts)
        return faces().only_face(image) if finds_faces else None

    def prepare(self, source: Image.Image) -> Features:
        return self.prepare_subject(source, Subject())

    def prepare_subject(
        self, source: Image.Image, subject: Subject, stored: Mapping[str, Any] | None = None
    ) -> Source:
        (tokens,) = self.tokens([source])
        prepared = Source(View(source, tokens), subject)
        if stored is None:
            prepared.prepared = self._prepare_parts(prepared)
        else:
            prepared.prepared = {part.name: stored[part.name] for part in self.parts}
        return prepared

    def _prepare_parts(self, source: Source) -> dict[str, Any]:
        copies = harmless_copies(source.view.decoded)
        card = blank_card(source.view.decoded)
        *views, card_view = (
            View(image, tokens)
            for image, tokens in zip((*copies, card), self.tokens([*copies, card]), strict=True)
        )
        source_views = SourceViews(source, views, card_view)
        return {part.name: part.prepare(source_views) for part in self.parts}

    def to_store(self, features: Source) -> dict[str, Any]:
        """Return the parts' measurements of a source, which are slow to compute, as JSON."""
        return dict(features.prepared)

    def losses(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> list[OverallLoss]:
        aligned = [
            register(source.view.decoded, image)
            for source, image in zip(sources, restored, strict=True)
        ]
        tokens = self.tokens([image for image, _, _ in aligned])
        return [
            self._loss(Comparison(source, image, View(moved, image_tokens), inside, reframed))
            for source, image, (moved, inside, reframed), image_tokens in zip(
                sources, restored, aligned, tokens, strict=True
            )
        ]

    def distance_within(self, source: Image.Image, restored: Image.Image, where: Mask) -> float:
        """Return the distance within the region `where`; both images have the same size."""
        prepared = self.prepare(source)
        image, inside, reframed = register(source, restored)
        (tokens,) = self.tokens([image])
        view = View(image, tokens)
        return self._loss(Comparison(prepared, restored, view, inside * where, reframed)).distance

    def _loss(self, comparison: Comparison) -> OverallLoss:
        prepared = comparison.source.prepared
        measured = {
            part: part.measure(comparison, prepared[part.name])
            for part in self.parts
            if prepared[part.name] is not None
        }
        terms = {part.name: (loss.distance / part.half) ** 2 for part, loss in measured.items()}
        finite(self, list(terms.values()))
        total = sum(terms.values())
        return OverallLoss(
            total / (1 + total),
            {part.name: loss for part, loss in measured.items()},
            max(terms, key=lambda name: terms[name]),
            comparison.changes,
            prepared,
        )

    def tokens(self, images: Sequence[Image.Image]) -> list[Tokens]:
        """Return the patch features of images that share a size."""
        return self.in_batches(images, lambda part: patches(self.network, images[part], LAYERS))
