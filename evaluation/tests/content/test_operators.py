"""The seven degradations are reproducible and visible."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.content import catalog
from evaluation.content.operators import DEGRADATIONS, degraded
from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage
from evaluation.testing.images import busy

IMAGE = EncodedImage.from_image(busy(96, 96))
DRAWN = ("motion", "old-film", "old-black-and-white", "old-colour", "surveillance")


def rmse(one: EncodedImage, other: EncodedImage) -> float:
    a, b = (np.asarray(image.decoded, dtype=float) for image in (one, other))
    return float(np.sqrt(((a - b) ** 2).mean()))


@pytest.mark.parametrize("name", DEGRADATIONS)
def test_degradations_are_reproducible(name):
    first = degraded(name, IMAGE, 1)
    assert first.size == IMAGE.size
    assert first.sha256 == degraded(name, IMAGE, 1).sha256
    assert 3 < rmse(IMAGE, first) < 110
    assert (first.sha256 != degraded(name, IMAGE, 2).sha256) == (name in DRAWN)


def test_black_and_white_is_grey_and_old_colour_is_yellow():
    grey = np.asarray(degraded("old-black-and-white", IMAGE, 1).decoded, dtype=int)
    assert np.ptp(grey, axis=-1).max() == 0
    red, _, blue = np.asarray(degraded("old-colour", IMAGE, 1).decoded).reshape(-1, 3).mean(axis=0)
    assert red > blue + 20


def test_a_restoration_pair_needs_one_edit_per_trip_and_names_a_degradation():
    pair = EditPair("r", "restoration", "(ours)", "Restore it.", "operator", operator="zoom")
    assert [step.operator for step in pair.trip(1).steps] == ["zoom", ""]
    assert pair.edits(3) == 3
    with pytest.raises(ValueError, match="operator is 'rain', not one of defocus"):
        EditPair("r", "restoration", "a", "b", "operator", operator="rain").cycle  # noqa: B018


def test_the_restoration_suite_has_every_scene_with_every_degradation():
    suite = catalog.suite("restoration")
    assert len(suite.images) == 13
    assert {pair.operator for pair in suite.pairs} == set(DEGRADATIONS)
    assert len(suite.cases) == suite.edits == 13 * 7
