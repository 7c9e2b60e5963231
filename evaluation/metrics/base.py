"""What every metric offers: a distance that is 0 for equal pictures, and how people read it.

Labels, versions and directions are class attributes, so tables and charts read
them without loading torch; whatever is heavy loads inside `prepare` and
`distances`. Most metrics measure pictures (`DirectMetric`); some are made of what
others found (`CombinedMetric`) and put it together in `combine`; some look at one picture
alone (`NoReferenceMetric`), and are no distance.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evaluation.errors import UserFacingError
from evaluation.weights import Requirements

#: What `prepare` made of a source; only the metric that made it can read it.
Features: TypeAlias = Any

#: Left, top, right, bottom, as shares of the picture's width and height.
Box: TypeAlias = tuple[float, float, float, float]
#: Cells of a picture, 48 x 48 whatever its shape: where something is, or how much of it.
Cells: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]
#: Whole numbers from 0 to 255.
Luma: TypeAlias = NDArray[np.uint8]
CELLS = 48
# A blank card this near is the source itself; to divide by it would say nothing.
FLAT = 1e-9

#: Larger pictures are measured one at a time, and by tiles: what networks and metrics make of
#: them is some 200 bytes for each of their pixels.
LARGE_PIXELS = 1_500_000


class MetricError(UserFacingError):
    """A metric that cannot measure here."""


class NotApplicable(Exception):
    """A metric that has nothing to say of a chain; the text says why."""


@dataclass(frozen=True)
class Subject:
    """What is known of a chain's pictures beside their pixels."""

    #: The one annotated face, if there is one.
    face: Box | None = None
    #: The cells in which the first forward edit was made (evaluation.measuring.subject).
    footprint: Mask | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.face is not None:
            left, top, right, bottom = self.face
            if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
                raise MetricError(
                    f"face is {self.face}: it should be left, top, right and bottom as shares "
                    "of the picture, from 0 to 1"
                )
        if self.footprint is not None and self.footprint.shape != (CELLS, CELLS):
            raise MetricError(
                f"footprint has the shape {self.footprint.shape}, not {CELLS} x {CELLS}"
            )


@dataclass(frozen=True)
class LossWords:
    """How pages speak of a chain of which a part of the headline kept least."""

    #: The cause of such an end (evaluation.analysis.events), and how it reads.
    cause: str
    ended: str
    #: The beginning of a sentence: what has crossed the threshold.
    crossed: str
    #: The end of sentences: where least is kept, and what changed most.
    because: str
    most: str
    #: What the loss is of (evaluation.analysis.failure_labels).
    level: str


class Metric(Requirements):
    """A distance between a source and its restored pictures, d(x, x) = 0, always finite."""

    name: ClassVar[str]
    label: ClassVar[str]
    #: What it looks at, for people who do not know its name: "perceived quality".
    looks_at: ClassVar[str]
    #: Whether it looks at what a picture means; such a metric stands beside the headline.
    semantic: ClassVar[bool] = False
    #: Changes whenever numbers can change; curves never mix versions.
    version: str
    #: Whether it compares pictures with their source; only such a metric ranks.
    reference: ClassVar[bool] = True
    #: Of the value that is shown; a distance is always better when smaller.
    higher_is_better: ClassVar[bool]
    unit: ClassVar[str] = ""
    #: Digits after the point when shown.
    digits: ClassVar[int] = 3
    #: The shorter side, in pixels, below which the metric is not defined.
    smallest: ClassVar[int] = 1
    #: The distance at which nothing is kept; None where each source's blank card tells it.
    blank: ClassVar[float | None] = None
    #: Whether it speaks of some pictures only, such as those with a face.
    selective: ClassVar[bool] = False
    #: The metrics it is made of; empty for one that measures pictures itself.
    parts: ClassVar[tuple[str, ...]] = ()
    #: Of a part of the headline.
    lost: ClassVar[LossWords | None] = None
    #: Whether its numbers come from a network, and so from a device's arithmetic.
    uses_network: ClassVar[bool] = False

    def shown(self, distance: float | None) -> float | None:
        """The value people read, None when it was not run."""
        return None if distance is None else 1 - distance

    def text(self, distance: float | None) -> str:
        """The shown value with its unit, in words where there is no number."""
        value = self.shown(distance)
        if value is None:
            return "not run"
        return f"{value:.{self.digits}f} {self.unit}".rstrip()

    def unfit(self, size: tuple[int, int]) -> str | None:
        """Why a source of this size cannot be measured; None when it can."""
        if min(size) >= self.smallest:
            return None
        return (
            f"{self.label} needs at least {self.smallest} px on the shorter side, "
            f"the source is {size[0]} x {size[1]}"
        )


class DirectMetric(Metric, ABC):
    """A metric that measures pictures itself."""

    #: Whether what it makes of a source is many times the picture: of a large one it is not held.
    holds_much: ClassVar[bool] = False
    #: Whether large pictures are measured all at once, by tiles.
    by_tiles: ClassVar[bool] = False
    #: Why it says nothing of a chain where `prepare` found nothing in the source.
    not_found: ClassVar[str] = "what it measures is not found in the source"

    def inapplicable(self, subject: Subject) -> str | None:
        """Why it has nothing to say of this subject; None when it has."""
        return None

    def view(self, image: Image.Image, subject: Subject) -> Image.Image:
        """The part of a picture that it looks at."""
        return image

    @abstractmethod
    def prepare(self, source: Image.Image) -> Features:
        """What a chain needs of its source, computed once; None where it does not apply."""

    @abstractmethod
    def distances(self, source: Features, restored: Sequence[Image.Image]) -> list[float]:
        """The distance of each restored picture, at the source's size, to the source."""

    def losses(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> Sequence[Loss]:
        """The loss of each picture to its own source."""
        return [
            Loss(distance)
            for source, image in zip(sources, restored, strict=True)
            for distance in self.distances(source, [image])
        ]

    def only_face(self, image: Image.Image) -> Box | None:
        """The one face of a picture that nobody annotated; None if it looks for none."""
        return None


@dataclass(frozen=True)
class Loss:
    """The distance of one picture; a metric may add where in the picture it comes from."""

    distance: float


@dataclass(frozen=True)
class Found:
    """Measurements of one chain; every list has one entry per restored picture."""

    #: By metric that measures pictures, as its `losses` gave them.
    losses: Mapping[str, Sequence[Any]]
    #: By metric, also those combined before.
    distances: Mapping[str, Sequence[float]]
    #: By metric, then by name: losses of the source's own references (`CombinedMetric`).
    references: Mapping[str, Mapping[str, Any]]
    footprints: Sequence[Mask | None]
    #: Whether maps of the loss are asked for.
    maps: bool

    def check_scale(self, part: type[Metric]) -> None:
        """Raise NotApplicable if a blank card is the source itself."""
        blank = self._blank(part)
        if blank is not None and blank < FLAT:
            raise NotApplicable("the source is one colour")

    def retention(self, part: type[Metric]) -> list[float]:
        """Retention by one part after each trip. Raises NotApplicable without a scale."""
        self.check_scale(part)
        blank = self._blank(part)
        # Nothing where there was no picture to measure.
        return [] if blank is None else [1 - d / blank for d in self.distances[part.name]]

    def _blank(self, part: type[Metric]) -> float | None:
        if part.blank is not None:
            return part.blank
        card = self.references.get(part.name, {}).get("blank")
        return None if card is None else card.distance


@dataclass(frozen=True)
class Combined:
    """Distances by a metric that is made of others, and what else it found on the way."""

    distances: list[float]
    #: By field of evaluation.measuring.scoring.Scores.
    findings: dict[str, list[Any]] = field(default_factory=dict)


class CombinedMetric(Metric, ABC):
    """A metric made of what others found (`parts`)."""

    #: Pictures drawn from the source (REFERENCES) that its parts without a scale measure too.
    references: ClassVar[tuple[str, ...]] = ()

    def with_parts(self, available: Collection[str]) -> CombinedMetric:
        """Return the metric as it is made of those parts that can run here."""
        return self

    @abstractmethod
    def combine(self, found: Found) -> Combined:
        """Put the parts together. Raises NotApplicable if they say nothing of this chain."""


class NoReferenceMetric(Metric, ABC):
    """A value of one picture on its own: no distance, and never ranked."""

    reference = False
    higher_is_better: ClassVar[bool] = False
    #: Lowest and highest of the usual values, which a value may leave.
    usual_range: ClassVar[tuple[float, float]]
    modules = {"cv2": "opencv-python-headless"}

    def value(self, image: Image.Image) -> float | None:
        """Return the value of a picture; None if it is too small or has no contrast."""
        if self.unfit(image.size):
            return None
        value = self.luma_value(np.asarray(image.convert("L")))
        # More digits say nothing: two implementations differ by far more.
        return None if value is None else round(value, 4)

    @abstractmethod
    def luma_value(self, luma: Luma) -> float | None:
        """Return the value of a picture with this luma; None if it is not defined."""


def is_large(size: tuple[int, int]) -> bool:
    return math.prod(size) > LARGE_PIXELS


def finite(metric: Metric, values: Sequence[float]) -> list[float]:
    """The distances as plain floats >= 0; a NaN or an infinity is an error, never a score."""
    if not all(map(math.isfinite, values)):
        raise MetricError(f"{metric.label} gave a value that is not a number")
    # Rounding can leave -1e-8 where two pictures are equal.
    return [max(0.0, float(value)) for value in values]
