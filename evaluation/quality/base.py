"""What every no-reference metric offers: a value of one picture's luma, and how it is read."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evaluation import weights
from evaluation.errors import UserFacingError
from evaluation.quality.published import PUBLISHED, Described

#: Whole numbers from 0 to 255.
Luma = NDArray[np.uint8]
Values = NDArray[np.float64]

INSTALL = "pip install 'convergebench[worker]'"


class QualityError(UserFacingError):
    """A no-reference metric that there is not, or that cannot measure here."""


class QualityMetric(ABC):
    """A number for one picture, which has nothing to be compared with."""

    name: ClassVar[str]
    #: Changes whenever numbers can change.
    version: ClassVar[str]
    #: The shorter side, in pixels, below which it says nothing.
    smallest: ClassVar[int]
    #: Of evaluation.weights; empty where it has none.
    weights: ClassVar[str] = ""
    modules: ClassVar[dict[str, str]] = {"cv2": "opencv-python-headless"}

    @property
    def described(self) -> Described:
        return PUBLISHED[self.name]

    @property
    def weights_sha256(self) -> str | None:
        return weights.locate(self.weights)[1] if self.weights else None

    def missing(self) -> list[str]:
        """What must be supplied before it can run, in words; empty when ready."""
        found = [
            f"the Python package {package} is not installed: {INSTALL}"
            for module, package in self.modules.items()
            if importlib.util.find_spec(module) is None
        ]
        if self.weights:
            try:
                weights.locate(self.weights)
            except weights.WeightsError as error:
                found.append(str(error))
        return found

    @abstractmethod
    def value(self, luma: Luma) -> float | None:
        """What it says of a picture with this luma; None where it is not defined."""


def luma_of(image: Image.Image) -> Luma:
    """The weighted sum of red, green and blue that all of these metrics look at, rounded."""
    return np.asarray(image.convert("L"))
