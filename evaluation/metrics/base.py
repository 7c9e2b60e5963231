"""Base classes of metrics.

A metric has a distance, which is 0 for equal images, and a value for display. Labels, versions and
directions are class attributes, so tables and charts read them without loading torch; heavy modules
are imported inside `prepare` and `losses`.

Most metrics measure images themselves (`DirectMetric`). Parts of the headline metric `overall` take
their distances from the headline's losses (`part_of`). A `NoReferenceMetric` measures one image
without its source.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evaluation.errors import UserFacingError
from evaluation.weights import Requirements

#: The result of `prepare`; only the metric that made it can read it.
Features: TypeAlias = Any

#: Left, top, right and bottom, as shares of the image's width and height.
Box: TypeAlias = tuple[float, float, float, float]
#: Values over a grid of 48 x 48 cells, for images of any shape.
Cells: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]
#: Integers from 0 to 255.
Luma: TypeAlias = NDArray[np.uint8]
CELLS = 48
# A source this close to its blank card, which has only the mean colour, has no defined retention.
FLAT = 1e-9

#: Larger images are measured one at a time and in tiles, because networks and metrics need about
#: 200 bytes per pixel.
LARGE_PIXELS = 1_500_000


class MetricError(UserFacingError):
    """A metric cannot be computed; the message gives the reason."""


@dataclass(frozen=True)
class Subject:
    """Annotations of a chain's images that metrics use."""

    #: The single annotated face, if any.
    face: Box | None = None
    #: The cells that the first forward edit changed (evaluation.measuring.subject).
    footprint: Mask | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.face is not None:
            left, top, right, bottom = self.face
            if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
                raise MetricError(
                    f"face is {self.face}: give left, top, right and bottom as shares of the "
                    "image, from 0 to 1"
                )
        if self.footprint is not None and self.footprint.shape != (CELLS, CELLS):
            raise MetricError(
                f"footprint has the shape {self.footprint.shape}, not {CELLS} x {CELLS}"
            )


class Metric(Requirements):
    """A distance between a source and restored images: d(x, x) = 0, always finite."""

    name: ClassVar[str]
    label: ClassVar[str]
    #: The measured property in everyday words: "perceived quality".
    looks_at: ClassVar[str]
    #: True if the metric compares the meaning of images; pages show it next to the headline.
    semantic: ClassVar[bool] = False
    #: It changes whenever the metric's values can change; curves never mix versions.
    version: str
    #: True if the metric compares images with their source; only such metrics rank models.
    reference: ClassVar[bool] = True
    #: The direction of the shown value; a distance is always better when smaller.
    higher_is_better: ClassVar[bool]
    unit: ClassVar[str] = ""
    #: Decimals of the shown value.
    digits: ClassVar[int] = 3
    #: The shorter side, in pixels, of the smallest image for which the metric is defined.
    smallest: ClassVar[int] = 1
    #: The distance at retention 0; None if it is measured on each source's blank card.
    blank: ClassVar[float | None] = None
    #: True if the metric applies only to some images, such as those with a face.
    selective: ClassVar[bool] = False
    #: The metric whose losses contain this metric's distances; empty if a metric measures images
    #: itself.
    part_of: ClassVar[str] = ""
    #: True if a network computes the distances, which therefore differ between devices.
    uses_network: ClassVar[bool] = False

    @property
    def running_version(self) -> str:
        """The version that runs here, which may depend on what is installed."""
        return self.version

    def shown(self, distance: float | None) -> float | None:
        """Return the value shown on pages; None if the metric was not run."""
        return None if distance is None else 1 - distance

    def text(self, distance: float | None) -> str:
        """Return the shown value with its unit, or "not run"."""
        value = self.shown(distance)
        if value is None:
            return "not run"
        return f"{value:.{self.digits}f} {self.unit}".rstrip()

    def size_problem(self, size: tuple[int, int]) -> str | None:
        """Return the reason why a source of this size cannot be measured, or None."""
        if min(size) >= self.smallest:
            return None
        return (
            f"{self.label} needs at least {self.smallest} px on the shorter side, "
            f"the source is {size[0]} x {size[1]}"
        )


class DirectMetric(Metric, ABC):
    """A metric that measures images itself."""

    #: True if features are many times the image's size; those of large images are then not cached.
    large_features: ClassVar[bool] = False

    @abstractmethod
    def prepare(self, source: Image.Image) -> Features:
        """Return the features of a source, which are computed once."""

    def prepare_subject(
        self, source: Image.Image, subject: Subject, stored: Mapping[str, Any] | None = None
    ) -> Features:
        """Return the features of a source with its annotations.

        `stored` is an earlier result of `to_store` for these features.
        """
        return self.prepare(source)

    def to_store(self, features: Features) -> dict[str, Any] | None:
        """Return the features that are slow to compute, as JSON, or None."""
        return None

    @abstractmethod
    def losses(
        self, sources: Sequence[Features], restored: Sequence[Image.Image]
    ) -> Sequence[Loss]:
        """Return the loss of each restored image compared with its own source.

        Restored images have the size of their source.
        """

    def distances(self, source: Features, restored: Sequence[Image.Image]) -> list[float]:
        """Return the distance of each restored image to one source."""
        return [loss.distance for loss in self.losses([source] * len(restored), restored)]

    def only_face(self, image: Image.Image) -> Box | None:
        """Return the single face of an unannotated image, or None."""
        return None


@dataclass(frozen=True)
class Loss:
    """The distance of one image; subclasses may add fields."""

    distance: float


class NoReferenceMetric(Metric, ABC):
    """A metric that measures one image without its source. It never ranks models."""

    reference = False
    higher_is_better: ClassVar[bool] = False
    #: The lowest and highest usual value; values outside are possible.
    usual_range: ClassVar[tuple[float, float]]
    modules = {"cv2": "opencv-python-headless"}

    def value(self, image: Image.Image) -> float | None:
        """Return the value of an image; None if it is too small or has no contrast."""
        if self.size_problem(image.size):
            return None
        value = self.luma_value(np.asarray(image.convert("L")))
        # Further digits have no meaning: implementations differ by far more.
        return None if value is None else round(value, 4)

    @abstractmethod
    def luma_value(self, luma: Luma) -> float | None:
        """Return the value of an image with this luma; None if it is not defined."""


def is_large(size: tuple[int, int]) -> bool:
    return math.prod(size) > LARGE_PIXELS


def finite(metric: Metric, distances: Sequence[float]) -> list[Loss]:
    """Return the distances as losses >= 0. Raises MetricError for NaN or infinity."""
    if not all(map(math.isfinite, distances)):
        raise MetricError(f"{metric.label} returned a value that is not a finite number")
    # Rounding can give -1e-8 for two equal images.
    return [Loss(max(0.0, float(distance))) for distance in distances]
