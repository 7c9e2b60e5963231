"""Calibrations: a metric's distances from a source to a blank card and to JPEG copies of it.

A calibration is equal on every machine. The calibrations of the suite `smoke` are shipped, because
computing them takes 40 s of processor time, for which a new board would wait. A shipped calibration
is used if metric, version, weights, pixels and face match; otherwise a new one is computed. Shipped
calibrations were made on a CPU in full precision and are used on every device, but not for
verification. `python -m tools.calibrations smoke` writes the files; a test recomputes one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from PIL import Image

from evaluation.content import catalog
from evaluation.images import EncodedImage, encode_jpeg
from evaluation.metrics.base import FLAT, Subject

QUALITIES = (95, 90, 85, 80, 75, 70, 60, 50, 40, 30, 20, 15, 10, 7, 5, 3, 1)
LOSSLESS = 100
FOLDER = "calibrations"


@dataclass(frozen=True)
class Calibration:
    """A metric's distances for a source: of its blank card, and of JPEG copies by quality."""

    blank: float
    ladder: Mapping[int, float]
    #: Data on the source that is slow to compute; None if the metric stores none.
    stored: Mapping[str, Any] | None = None


def retention(distance: float | None, blank: float | None) -> float | None:
    """Return 1 - d / d(blank card): 1 is identical, 0 is no better than a blank card.

    Returns None if the metric was not run, or if the source is itself a blank card.
    """
    if distance is None or blank is None or blank < FLAT:
        return None
    return 1 - distance / blank


def stored_source_data(
    calibrations: Mapping[str, Calibration | None],
) -> dict[str, Mapping[str, Any]]:
    """Return the stored data on a source, for each metric that has such data."""
    return {name: c.stored for name, c in calibrations.items() if c and c.stored}


def jpeg_saves(source: Image.Image) -> Iterator[Image.Image]:
    """Yield the source saved as JPEG and decoded, one image per quality."""
    for quality in QUALITIES:
        yield EncodedImage.from_bytes(encode_jpeg(source, quality)).decoded


def jpeg_equivalent(distance: float | None, ladder: Mapping[int, float]) -> float | None:
    """Return the JPEG quality whose loss equals `distance`.

    100 means no loss; 0 means a larger loss than at any quality. Returns None if the metric was not
    run.
    """
    from scipy.optimize import isotonic_regression

    if distance is None or not ladder:
        return None
    qualities = sorted(ladder, reverse=True)
    # The loss should grow as the quality falls, but for real images it does not always do so (SSIM
    # of the image "astronaut" at the qualities 70 and 60). So the nearest monotonic ladder is used.
    losses = isotonic_regression([ladder[quality] for quality in qualities]).x
    losses = np.concatenate([[0.0], np.maximum(losses, 0.0)])
    if distance > losses[-1]:
        return 0.0
    # If several qualities have an equal loss, take the best one, which is the first.
    first = np.unique(losses, return_index=True)[1]
    steps = np.array([LOSSLESS, *qualities], dtype=float)
    return float(np.interp(distance, losses[first], steps[first]))


def shipped(
    pixels_sha256: str, subject: Subject, versions: Mapping[str, tuple[str, str]]
) -> dict[str, Calibration | None]:
    """Return the shipped calibrations of a source, by metric.

    `versions` has each metric's version and the hash of its weights. The value is None for a metric
    that does not apply to this source; metrics without a shipped calibration are left out.
    """
    calibrations: dict[str, Calibration | None] = {}
    for file in _files():
        image = file["images"].get(pixels_sha256)
        if image is None or image["face"] != face_shares(subject):
            continue
        for name, (version, weights) in versions.items():
            made_with = file["metrics"].get(name)
            if made_with == {"version": version, "weights_sha256": weights}:
                stored = image["stored"].get(name)
                calibrations[name] = _calibration(image["distances"][name], stored)
    return calibrations


@cache
def _files() -> list[dict[str, Any]]:
    folder = catalog.folder() / FOLDER
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def face_shares(subject: Subject) -> list[float] | None:
    return None if subject.face is None else list(subject.face)


def _calibration(
    distances: list[float] | None, stored: Mapping[str, Any] | None
) -> Calibration | None:
    if distances is None:
        return None
    blank, *ladder = distances
    return Calibration(blank, dict(zip(QUALITIES, ladder, strict=True)), stored)
