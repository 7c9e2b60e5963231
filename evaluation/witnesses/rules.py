"""Detect changed colours, flips and turns by fixed rules, without a network."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evaluation.content import operators
from evaluation.content.suites import EditPair
from evaluation.witnesses.base import AmountWitness, Evidence, TripToJudge, Witness, requested_thing

Values = NDArray[np.float64]
# Images are first averaged over a grid of cells, so that small shifts and slight noise are ignored.
SIDE = 48


class Hue(AmountWitness):
    """Measure how far the image's colours moved towards the requested colour.

    If the exact answer is known, such as the inverted source, the amount is from -1 (like the
    source) to 1 (like the exact answer).
    """

    name, label, version = "hue", "colour", "lab-48-2"
    licence = "our own"
    can = "whether the whole image became inverted, grey, warmer, darker or more vivid"
    cannot = "the colour of one thing in the image"
    modules = {"skimage": "scikit-image"}
    min_increase = {
        "inverted": 1.0,
        "swapped": 1.0,
        "opposite": 1.0,
        "none": 0.6,
        "brown": 0.25,
        "orange": 0.03,
        "blue": 0.03,
        "vivid": 0.12,
        "pale": 0.15,
        "bright": 0.05,
        "dark": 0.05,
    }
    #: More brown cannot be detected in a brown source.
    max_in_source = {"brown": 0.7}

    def thing(self, pair: EditPair) -> str | None:
        thing = requested_thing(pair, self.name)
        return thing if thing in AMOUNTS else None

    def amount(self, image: Image.Image, thing: str, trip: TripToJudge) -> float | None:
        source, cells = _cells(trip.source.decoded), _cells(image)
        if thing in NEED_COLOUR and _chroma(_lab(source)).mean() < GREY:
            return None
        return AMOUNTS[thing](cells, source)


def _cells(image: Image.Image) -> Values:
    small = image.resize((SIDE, SIDE), Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float64) / 255


def _lab(image: Values) -> Values:
    from skimage.color import rgb2lab

    lab: Values = rgb2lab(image)
    return lab


def _chroma(lab: Values) -> Values:
    length: Values = np.hypot(lab[..., 1], lab[..., 2])
    return length


def _likeness(one: Values, other: Values) -> float:
    """Return the cosine of two arrays of values; 0 if either is zero."""
    norm = math.sqrt(float(np.square(one).sum()) * float(np.square(other).sum()))
    return float((one * other).sum()) / norm if norm > 1e-9 else 0.0


def _inverted(image: Values, source: Values) -> float:
    centred, reference = (values - values.mean(axis=(0, 1)) for values in (image, source))
    return -_likeness(centred, reference)


def _swapped(image: Values, source: Values) -> float:
    return -_likeness(*(values[..., 0] - values[..., 2] for values in (image, source)))


def _opposite(image: Values, source: Values) -> float:
    return -_likeness(*(_lab(values)[..., 1:] for values in (image, source)))


def _colourless(image: Values, source: Values) -> float:
    chroma, source_chroma = (float(_chroma(_lab(values)).mean()) for values in (image, source))
    return 1 - chroma / source_chroma


def _one_hue(image: Values, source: Values) -> float:
    """Return the share of the image's colour that is brown, from 0 to 1."""
    lab = _lab(image)
    chroma = float(_chroma(lab).sum())
    return float((lab[..., 1:] @ BROWN).sum()) / chroma if chroma > SIDE**2 else 0.0


def _towards(direction: Values) -> Callable[[Values, Values], float]:
    return lambda image, source: float((_lab(image)[..., 1:] @ direction).mean()) / 100


def _vividness(image: Values, source: Values) -> float:
    return math.log(float(_chroma(_lab(image)).mean()) + 1)


def _lightness(image: Values, source: Values) -> float:
    return float(_lab(image)[..., 0].mean()) / 100


def _direction(degrees: float) -> Values:
    """Return the direction of a hue in CIELAB: 0 is red, 90 yellow, 270 blue."""
    angle = math.radians(degrees)
    return np.array([math.cos(angle), math.sin(angle)])


BROWN = _direction(75)
# An image with a mean chroma below this counts as grey.
GREY = 3.0
NEED_COLOUR = ("swapped", "opposite", "none")
AMOUNTS: dict[str, Callable[[Values, Values], float]] = {
    "inverted": _inverted,
    "swapped": _swapped,
    "opposite": _opposite,
    "none": _colourless,
    "brown": _one_hue,
    "orange": _towards(_direction(70)),
    "blue": _towards(_direction(270)),
    "vivid": _vividness,
    "pale": lambda image, source: -_vividness(image, source),
    "bright": _lightness,
    "dark": lambda image, source: -_lightness(image, source),
}


# Amounts are from -1 (like the image before the edit) to 1 (like the exactly flipped or turned
# image); the average of both images has 0. An edit counts as made from this amount on.
MIN_AMOUNT = 0.3
# An image that is still this similar to itself when flipped or turned gives no evidence.
MAX_LIKENESS = 0.9
WORDS = {
    "flip_horizontal": "flipped left to right",
    "flip_vertical": "flipped upside down",
    "rotate_90": "turned to the right",
    "rotate_180": "turned by half",
    "rotate_270": "turned to the left",
}


class Geometry(Witness):
    """Measure whether an image is more like the moved image or the image before the edit.

    The moved image is the image before the edit, flipped or turned exactly.
    """

    name, label, version = "geometry", "the exact operator", "cells-48-1"
    licence = "our own"
    can = "whether the image was flipped or turned as requested, and back again"
    cannot = "edits other than flips and turns; symmetric images"
    gates = frozenset(WORDS)

    def examine(self, trip: TripToJudge) -> Evidence | None:
        thing = WORDS.get(self.operator(trip.pair))
        if thing is None:
            return None
        before = _detail(trip.before.decoded)
        moved = _detail(operators.apply(trip.pair.operator, trip.before.decoded))
        alike = _likeness(before, moved)
        if alike > MAX_LIKENESS:
            return None
        images = [trip.before, trip.edited, *([trip.restored] if trip.restored else [])]
        amounts = tuple(
            (_likeness(cells, moved) - _likeness(cells, before)) / (1 - alike)
            for cells in (_detail(image.decoded) for image in images)
        )
        made = amounts[1] >= MIN_AMOUNT
        undone = amounts[2] < MIN_AMOUNT if made and trip.restored else None
        gates = trip.pair.operator in self.gates
        return Evidence(self.name, self.version, thing, made, undone, gates, amounts)

    @staticmethod
    def operator(pair: EditPair) -> str:
        return pair.operator if pair.change == "exact" else ""


def _detail(image: Image.Image) -> Values:
    """Return the deviations from the mean colour, on a square grid, which can be turned."""
    small = image.resize((SIDE, SIDE), Image.Resampling.BOX)
    values = np.asarray(small, dtype=np.float64)
    centred: Values = values - values.mean(axis=(0, 1))
    return centred
