"""Flips and turns, by the exact operator that the pair names."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evaluation.content import operators
from evaluation.content.suites import EditPair
from evaluation.witnesses.base import Evidence, TripToJudge, Witness

Values = NDArray[np.float64]
# Cells as large as what a model may shift or wobble.
SIDE = 48
# On the scale from -1, the picture before, to 1, that picture moved exactly: a double exposure
# of both, or one half of each, lies at 0.
MOVED = 0.3
# A picture that the operator moves onto itself, nearly, tells nothing.
ALIKE = 0.9
WORDS = {
    "flip_horizontal": "flipped left to right",
    "flip_vertical": "flipped upside down",
    "rotate_90": "turned to the right",
    "rotate_180": "turned by half",
    "rotate_270": "turned to the left",
}


class Geometry(Witness):
    """How much more a picture is like the moved one than like the one before it."""

    name, label, version = "geometry", "the exact operator", "cells-48-1"
    licence = "our own"
    can = "whether the picture was flipped or turned as asked, and turned back"
    cannot = "a pair without an exact operator; a picture that is its own mirror image"
    gates = frozenset(WORDS)

    def look(self, trip: TripToJudge) -> Evidence | None:
        thing = WORDS.get(self.operator(trip.pair))
        if thing is None:
            return None
        before = _cells(trip.before.image)
        moved = _cells(operators.apply(trip.pair.operator, trip.before.image))
        alike = _likeness(before, moved)
        if alike > ALIKE:
            return None
        pictures = [trip.before, trip.edited, *([trip.returned] if trip.returned else [])]
        amounts = tuple(
            (_likeness(cells, moved) - _likeness(cells, before)) / (1 - alike)
            for cells in (_cells(picture.image) for picture in pictures)
        )
        made = amounts[1] >= MOVED
        undone = amounts[2] < MOVED if made and trip.returned else None
        gates = trip.pair.operator in self.gates
        return Evidence(self.name, self.version, thing, made, undone, gates, amounts)

    @staticmethod
    def operator(pair: EditPair) -> str:
        return pair.operator if pair.change == "exact" else ""


def _cells(image: Image.Image) -> Values:
    """The picture's detail, square whatever its shape: turned by a quarter it stays that size."""
    small = image.resize((SIDE, SIDE), Image.Resampling.BOX)
    values = np.asarray(small, dtype=np.float64)
    centred: Values = values - values.mean(axis=(0, 1))
    return centred


def _likeness(one: Values, other: Values) -> float:
    """The cosine of two fields; 0 where one of them is nothing."""
    norm = math.sqrt(float(np.square(one).sum()) * float(np.square(other).sum()))
    return float((one * other).sum()) / norm if norm > 1e-9 else 0.0
