"""What every metric offers: a distance that is 0 for equal pictures, and how people read it.

Labels, versions and directions are class attributes, so tables and charts read
them without loading torch; whatever is heavy loads inside `prepare` and
`distances`.
"""

from __future__ import annotations

import importlib.util
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

from PIL import Image

from evaluation.errors import UserFacingError

#: What `prepare` made of a source; only the metric that made it can read it.
Features: TypeAlias = Any

INSTALL = "pip install 'convergebench[worker]'"


class MetricError(UserFacingError):
    """A metric that cannot measure here."""


class Metric(ABC):
    """A distance between a source and its restored pictures, d(x, x) = 0, always finite."""

    name: ClassVar[str]
    label: ClassVar[str]
    #: What it looks at, for people who do not know its name: "perceived quality".
    looks_at: ClassVar[str]
    #: Whether it looks at what a picture means; such a metric stands beside the headline.
    semantic: ClassVar[bool] = False
    #: Changes whenever numbers can change; curves never mix versions.
    version: ClassVar[str]
    #: Of the value that is shown; a distance is always better when smaller.
    higher_is_better: ClassVar[bool]
    unit: ClassVar[str] = ""
    #: Digits after the point when shown.
    digits: ClassVar[int] = 3
    #: The shorter side, in pixels, below which the metric is not defined.
    smallest: ClassVar[int] = 1
    #: Importable modules it needs, with the package that brings each.
    modules: ClassVar[dict[str, str]] = {}

    @property
    def weights_sha256(self) -> str | None:
        """The hash of the weights in use; None for a metric that has none."""
        return None

    @abstractmethod
    def prepare(self, source: Image.Image) -> Features:
        """What a chain needs of its source, computed once."""

    @abstractmethod
    def distances(self, source: Features, restored: Sequence[Image.Image]) -> list[float]:
        """The distance of each restored picture, at the source's size, to the source."""

    def shown(self, distance: float | None) -> float | None:
        """The value people read, None when it was not run."""
        return None if distance is None else 1 - distance

    def text(self, distance: float | None) -> str:
        """The shown value with its unit, in words where there is no number."""
        value = self.shown(distance)
        if value is None:
            return "not run"
        return f"{value:.{self.digits}f} {self.unit}".rstrip()

    def missing(self) -> list[str]:
        """What must be supplied before this metric can run, in words; empty when ready."""
        return [
            f"the Python package {package} is not installed: {INSTALL}"
            for module, package in self.modules.items()
            if importlib.util.find_spec(module) is None
        ]

    def unfit(self, size: tuple[int, int]) -> str | None:
        """Why a source of this size cannot be measured; None when it can."""
        if min(size) >= self.smallest:
            return None
        return (
            f"{self.label} needs at least {self.smallest} px on the shorter side, "
            f"the source is {size[0]} x {size[1]}"
        )


def finite(metric: Metric, values: Sequence[float]) -> list[float]:
    """The distances as plain floats >= 0; a NaN or an infinity is an error, never a score."""
    if not all(map(math.isfinite, values)):
        raise MetricError(f"{metric.label} gave a value that is not a number")
    # Rounding can leave -1e-8 where two pictures are equal.
    return [max(0.0, float(value)) for value in values]
