"""JPEG equivalent: monotone, whatever the ladder looks like."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evaluation.measuring.calibrations.jpeg import QUALITIES, jpeg_equivalent, saves

LADDER = {quality: (100 - quality) / 100 for quality in QUALITIES}
losses = st.floats(0, 2, allow_subnormal=False)
ladders = st.builds(dict, st.lists(st.tuples(st.sampled_from(QUALITIES), losses), min_size=1))


def test_each_step_of_the_ladder_is_its_own_equivalent():
    for quality, loss in LADDER.items():
        assert jpeg_equivalent(loss, LADDER) == pytest.approx(quality)


def test_no_loss_is_100_and_more_than_any_save_is_worse_than_1():
    assert jpeg_equivalent(0.0, LADDER) == 100
    assert jpeg_equivalent(0.991, LADDER) == 0
    assert jpeg_equivalent(0.125, LADDER) == pytest.approx(87.5)


def test_what_was_not_run_has_no_equivalent():
    assert jpeg_equivalent(None, LADDER) is None
    assert jpeg_equivalent(0.1, {}) is None


def test_a_ladder_that_steps_back_gives_the_better_quality_of_a_plateau():
    assert jpeg_equivalent(0.2, {90: 0.1, 70: 0.21, 60: 0.19, 50: 0.4}) == pytest.approx(70)


@given(ladders, losses, losses)
def test_a_larger_loss_never_has_a_better_equivalent(ladder, one, other):
    small, large = sorted((one, other))
    better, worse = jpeg_equivalent(small, ladder), jpeg_equivalent(large, ladder)
    assert 100 >= better >= worse >= 0
    assert worse == 0 or worse >= min(ladder)


def test_the_saves_are_what_jpeg_gives_back_in_the_order_of_the_qualities():
    source = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8))
    errors = [
        float(np.square(np.asarray(save, dtype=float) - np.asarray(source)).mean())
        for save in saves(source)
    ]
    assert len(errors) == 17
    assert errors[0] < errors[8] < errors[-1]
