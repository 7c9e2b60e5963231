"""Local loss: the largest mean squared error over windows of 64 px, 32 px apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evaluation.metrics.base import Features, Metric, finite

WINDOW, STRIDE = 64, 32


class WorstWindow(Metric):
    """What a mean over the whole picture hides: one face lost in a wide scene.

    The last window of a row or column lies flush with the border, so that every
    pixel is seen; a picture smaller than a window is one window.
    """

    name, label, version = "worst_window", "Local loss", "1"
    looks_at = "the worst spot"
    higher_is_better, digits = False, 4

    def prepare(self, source: Image.Image) -> Features:
        return np.asarray(source)

    def distances(self, source: Features, restored: Sequence[Image.Image]) -> list[float]:
        return finite(self, [worst(source, np.asarray(image)) for image in restored])

    def shown(self, distance: float | None) -> float | None:
        return distance


def worst(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The largest MSE of a window, in units of the full range."""
    windows, pixels = _windows(a, b)
    return float(windows.max()) / float(pixels * 3) / 255**2


def worst_place(a: NDArray[Any], b: NDArray[Any]) -> tuple[int, int, int]:
    """Where the worst window lies: x, y and side in pixels."""
    windows, _ = _windows(a, b)
    row, column = np.unravel_index(int(windows.argmax()), windows.shape)
    top, left = _edges(a.shape[0])[0][row], _edges(a.shape[1])[0][column]
    return int(left), int(top), min(WINDOW, *a.shape[:2])


def _windows(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """The sum of squared differences of every window, and the pixels of one."""
    difference = np.subtract(a, b, dtype=np.int16)
    squares = np.multiply(difference, difference, dtype=np.uint16, casting="unsafe")
    losses = squares.sum(axis=2, dtype=np.int64)
    # Sums over a window are four corners of the running sums; integers stay exact.
    sums = np.zeros((losses.shape[0] + 1, losses.shape[1] + 1), dtype=np.int64)
    losses.cumsum(axis=0, out=losses).cumsum(axis=1, out=sums[1:, 1:])
    (top, bottom), (left, right) = _edges(a.shape[0]), _edges(a.shape[1])
    windows = sums[np.ix_(bottom, right)] + sums[np.ix_(top, left)]
    windows -= sums[np.ix_(bottom, left)] + sums[np.ix_(top, right)]
    return windows, int((bottom[0] - top[0]) * (right[0] - left[0]))


def _edges(length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the windows along one side begin and end."""
    window = min(WINDOW, length)
    begins = np.unique([*range(0, length - window, STRIDE), length - window]).astype(np.int64)
    return begins, begins + window
