"""JPEG as a yardstick: "after n trips = one JPEG save at quality q"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from PIL import Image

from evaluation.images import Picture, encode_jpeg

QUALITIES = (95, 90, 85, 80, 75, 70, 60, 50, 40, 30, 20, 15, 10, 7, 5, 3, 1)
LOSSLESS = 100


def saves(source: Image.Image) -> Iterator[Image.Image]:
    """The source as JPEG gives it back, one picture per quality; each is made when it is asked for."""
    for quality in QUALITIES:
        yield Picture.from_bytes(encode_jpeg(source, quality)).image


def jpeg_equivalent(distance: float | None, ladder: Mapping[int, float]) -> float | None:
    """The quality of the one JPEG save that loses as much as `distance`: 100 is no loss.

    0 is "worse than 1": more is lost than by any save. None where the metric was not run.
    """
    from scipy.optimize import isotonic_regression

    if distance is None or not ladder:
        return None
    qualities = sorted(ladder, reverse=True)
    # Down the ladder the loss should grow; a real picture's ladder steps back here and
    # there (SSIM of astronaut at 70 and 60), so the nearest growing ladder is taken.
    losses = isotonic_regression([ladder[quality] for quality in qualities]).x
    losses = np.concatenate([[0.0], np.maximum(losses, 0.0)])
    if distance > losses[-1]:
        return 0.0
    # On a plateau the best quality is meant: the first of equal losses.
    first = np.unique(losses, return_index=True)[1]
    steps = np.array([LOSSLESS, *qualities], dtype=float)
    return float(np.interp(distance, losses[first], steps[first]))
