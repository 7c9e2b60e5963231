"""Parts of the headline metric: nine kinds of damage with distances and half points.

A part measures a distance in its own unit (`measure`). Its retention is
1 / (1 + (distance / half)²), so it is 0.5 at the half point (`half`). Each part is also a metric
with its own curve.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from evaluation.metrics.base import CELLS, Box, Mask, Metric
from evaluation.metrics.networks.faces import Faces, faces
from evaluation.metrics.networks.text_reader import TextReader, best_match, plain, text_reader
from evaluation.metrics.views import (
    OBJECT_LAYER,
    SHAPE_LAYER,
    Comparison,
    Floats,
    Source,
    View,
    dissimilarity,
    window_box,
    window_means,
    window_means_inside,
)

# Sides of windows: in patches for objects and contours, in cells of the colour map for regions.
OBJECT_SIDE, CONTOUR_SIDE, REGION_SIDE = 4, 3, 12
# The smallest denominator of a window, used where the blank card hardly differs from the source.
MIN_DENOMINATOR = 0.2
# Grey levels added to fine detail, so that the logarithm is finite for flat images.
DETAIL_OFFSET = 0.5
# Harmless copies shift a face's embedding too. Twice the largest shift is tolerated; each shift is
# capped at this value.
MAX_FACE_SHIFT = 0.3
# Lines with fewer letters are ignored, because textures may be read as text by chance.
LETTERS = 4
# The precision with which tables of a source are stored; values are from 0 to 2.
STEP = 2.0**-15


@dataclass(frozen=True)
class PartLoss:
    """The distance of one part, and the window where it was measured; None: the whole image."""

    distance: float
    window: Box | None = None


@dataclass(frozen=True)
class SourceViews:
    """The views of a source from which parts prepare their measurements."""

    source: Source
    #: Copies without visible damage: slight noise, slight blur, JPEG 85.
    harmless: Sequence[View]
    #: A blank card of the source's mean colour.
    card: View


class Part(Metric, ABC):
    """One kind of damage; a selective part does not apply to every source."""

    part_of = "overall"
    higher_is_better, digits, blank = True, 2, 1.0
    version = "1"
    #: The half point: the distance at which the part's retention is 0.5.
    half: ClassVar[float]
    #: Why a chain ends if this part lost most: "an object is gone or changed".
    ended: ClassVar[str]
    #: Why the part does not apply to a source.
    not_found: ClassVar[str] = ""

    def loss(self, distance: float) -> float:
        """Return the stored value, 1 - retention; it is exactly 0 at distance 0."""
        term = (distance / self.half) ** 2
        return term / (1 + term)

    def prepare(self, views: SourceViews) -> Any:
        """Return the part's measurements of the source, as JSON; None if it does not apply."""
        return {}

    @abstractmethod
    def measure(self, comparison: Comparison, prepared: Any) -> PartLoss:
        """Return the distance of the restored image to the source."""


class Object(Part):
    """Objects that are gone, invented or replaced, in the worst window."""

    name, label = "object", "Objects"
    looks_at = "things lost or added"
    half = 0.15
    ended = "an object is gone or changed"
    weights, uses_network = "dinov2-small", True

    def prepare(self, views: SourceViews) -> Any:
        """Return how far harmless copies and a blank card change each patch."""
        card = dissimilarity(views.source.view.tokens, views.card.tokens, OBJECT_LAYER)
        return {"floor": to_json(harmless_change(views, OBJECT_LAYER)), "card": to_json(card)}

    def measure(self, comparison: Comparison, prepared: Any) -> PartLoss:
        change = comparison.changes[OBJECT_LAYER]
        changed = window_means_inside(change, comparison.counts(*change.shape), OBJECT_SIDE)
        tables = (window_means(table, OBJECT_SIDE) for table in self._tables(prepared))
        return worst_window(self._distance(changed, *tables), OBJECT_SIDE, change.shape)

    def within(self, changes: Mapping[int, Floats], prepared: Any, region: Mask) -> float:
        """Return the distance of a region of patches, not of the worst window."""
        tables = (changes[OBJECT_LAYER], *self._tables(prepared))
        return float(self._distance(*(table[region].mean() for table in tables)))

    @staticmethod
    def _tables(prepared: Any) -> tuple[Floats, Floats]:
        return from_json(prepared["floor"]), from_json(prepared["card"])

    @staticmethod
    def _distance(changed: Any, harmless: Any, card: Any) -> Any:
        return np.maximum(changed - harmless, 0) / np.maximum(card - harmless, MIN_DENOMINATOR)


class Shape(Part):
    """Changes of contours, in the worst window."""

    name, label = "shape", "Shapes"
    looks_at = "contours and small details"
    half = 0.28
    ended = "shapes changed"
    weights, uses_network = "dinov2-small", True

    def prepare(self, views: SourceViews) -> Any:
        return {"floor": to_json(harmless_change(views, SHAPE_LAYER))}

    def measure(self, comparison: Comparison, prepared: Any) -> PartLoss:
        change = comparison.changes[SHAPE_LAYER]
        changed = window_means_inside(change, comparison.counts(*change.shape), CONTOUR_SIDE)
        harmless = window_means(from_json(prepared["floor"]), CONTOUR_SIDE)
        return worst_window(np.maximum(changed - harmless, 0), CONTOUR_SIDE, change.shape)

    def within(self, changes: Mapping[int, Floats], prepared: Any, region: Mask) -> float:
        """Return the distance of a region of patches, not of the worst window."""
        tables = (changes[SHAPE_LAYER], from_json(prepared["floor"]))
        changed, harmless = (float(table[region].mean()) for table in tables)
        return max(0.0, changed - harmless)


class LocalColour(Part):
    """Changes of colour, in the worst window."""

    name, label = "local_colour", "Colour of a region"
    looks_at = "hue of single objects"
    half = 22.0
    ended = "a region changed colour"

    def measure(self, comparison: Comparison, prepared: Any) -> PartLoss:
        change = comparison.colour_difference
        changed = window_means_inside(change, comparison.counts(*change.shape), REGION_SIDE)
        return worst_window(changed, REGION_SIDE, change.shape)


class Colour(Part):
    """The mean change of colour over the whole image."""

    name, label = "colour", "Colours"
    looks_at = "tone of the whole image"
    half = 7.2
    ended = "colours changed"

    def measure(self, comparison: Comparison, prepared: Any) -> PartLoss:
        change = comparison.colour_difference
        inside = comparison.counts(*change.shape)
        return PartLoss(float(change[inside].mean() if inside.any() else change.mean()))


class Sharpness(Part):
    """The change of fine detail, as the absolute logarithm of a ratio."""

    name, label = "sharpness", "Sharpness"
    looks_at = "fine detail, lost or exaggerated"
    half = 0.5
    ended = "sharpness was lost or exaggerated"

    def measure(self, comparison: Comparison, prepared: Any) -> PartLoss:
        inside = comparison.counts(CELLS, CELLS)
        before, after = (
            view.bands[1][inside].mean() + DETAIL_OFFSET if inside.any() else DETAIL_OFFSET
            for view in (comparison.source.view, comparison.registered)
        )
        return PartLoss(float(abs(np.log(after / before))))


class Grain(Part):
    """The rise of the finest detail in quiet areas, in grey levels."""

    name, label = "grain", "Grain"
    looks_at = "noise in quiet areas"
    half = 5.0
    ended = "grain appeared"

    def measure(self, comparison: Comparison, prepared: Any) -> PartLoss:
        before, after = comparison.source.view.bands[0], comparison.registered.bands[0]
        quiet = comparison.counts(CELLS, CELLS) & (before <= np.median(before))
        rise = float(np.median((after - before)[quiet])) if quiet.any() else 0.0
        return PartLoss(max(0.0, rise))


class Face(Part):
    """The distance between the embeddings of the annotated face, before and after."""

    name, label = "face", "Face"
    looks_at = "likeness of the person"
    half = 0.45
    ended = "the face is gone or another person’s"
    not_found = "no single face is annotated and found in the source"
    selective, uses_network = True, True
    weights, modules = Faces.weights, Faces.modules

    def prepare(self, views: SourceViews) -> Any:
        face = views.source.subject.face
        if face is None:
            return None
        embedding = faces().embedding(views.source.view.decoded, face)
        if embedding is None:
            return None
        moved = (
            faces().distance(embedding, faces().embedding(copy.decoded, face))
            for copy in views.harmless
        )
        allowance = 2 * max(min(distance, MAX_FACE_SHIFT) for distance in moved)
        return {
            "face": list(face),
            "embedding": [float(value) for value in embedding],
            "forgiven": allowance,
        }

    def measure(self, comparison: Comparison, prepared: Any) -> PartLoss:
        left, top, right, bottom = prepared["face"]
        face = (left, top, right, bottom)
        other = faces().embedding(comparison.restored, face)
        distance = faces().distance(np.array(prepared["embedding"]), other)
        return PartLoss(max(0.0, distance - prepared["forgiven"]), face)


class Text(Part):
    """The dissimilarity of the most changed line among the lines that are read reliably."""

    name, label = "text", "Text"
    looks_at = "legibility"
    half = 0.35
    ended = "the text is no longer readable"
    not_found = "no line of text is read reliably in the source"
    selective, uses_network = True, True
    weights, modules = TextReader.weights, TextReader.modules

    def prepare(self, views: SourceViews) -> Any:
        """Return the lines that are read identically in all harmless copies."""
        lines = [plain(line) for line in text_reader().lines(views.source.view.decoded)]
        lines = [line for line in lines if len(line) >= LETTERS]
        if not lines:
            return None
        copy_lines = [text_reader().lines(copy.decoded) for copy in views.harmless]
        return [line for line in lines if all(best_match(line, a) == 1 for a in copy_lines)] or None

    def measure(self, comparison: Comparison, prepared: Any) -> PartLoss:
        read = text_reader().lines(comparison.restored)
        return PartLoss(max(1 - best_match(line, read) for line in prepared))


class Framing(Part):
    """The share of the frame that was cut off or invented."""

    name, label = "framing", "Framing"
    looks_at = "edges cut off or invented"
    half = 0.3
    ended = "the image was reframed"

    def measure(self, comparison: Comparison, prepared: Any) -> PartLoss:
        return PartLoss(comparison.reframed)


#: The parts, in the order in which tables show them.
PARTS: tuple[type[Part], ...] = (
    Object,
    Shape,
    LocalColour,
    Colour,
    Sharpness,
    Grain,
    Face,
    Text,
    Framing,
)


def harmless_change(views: SourceViews, layer: int) -> Floats:
    """Return each patch's largest change by a harmless copy."""
    tokens = views.source.view.tokens
    return np.max([dissimilarity(tokens, copy.tokens, layer) for copy in views.harmless], axis=0)


def worst_window(values: Floats, side: int, shape: tuple[int, ...]) -> PartLoss:
    """Return the largest value with its window; distance 0 if no window counts."""
    row, column = np.unravel_index(int(values.argmax()), values.shape)
    index = int(row), int(column)
    return PartLoss(max(0.0, float(values[index])), window_box(index, side, shape))


def to_json(values: Floats) -> dict[str, Any]:
    """Return a table of values from 0 to 2 as JSON."""
    data = np.rint(values / STEP).clip(0, 2**16 - 1).astype("<u2")
    return {"shape": list(data.shape), "values": base64.b64encode(data.tobytes()).decode()}


def from_json(stored: Mapping[str, Any]) -> Floats:
    """Return the table that `to_json` wrote."""
    values = np.frombuffer(base64.b64decode(stored["values"]), dtype="<u2")
    return values.reshape(stored["shape"]).astype(np.float64) * STEP
