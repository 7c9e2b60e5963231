"""The map of a trip's loss: a small PNG that is clear where nothing is lost."""

import io

import numpy as np
from PIL import Image

from evaluation.measuring.trip_measures import loss_map
from evaluation.metrics.base import CELLS


def read(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))


def test_the_map_is_clear_where_nothing_is_lost_and_red_where_all_is():
    lost = np.zeros((CELLS, CELLS), np.float32)
    lost[10:20, 30:40] = 1
    lost[30, 5] = 0.5
    lost[0, 0], lost[0, 1] = 7.5, -0.3  # worse than a blank card, and rounding
    pixels = read(loss_map(lost))
    assert pixels.shape == (CELLS, CELLS, 4)
    alpha = pixels[..., 3]
    assert (alpha[10:20, 30:40] == alpha.max()).all()
    assert alpha[0, 0] == alpha.max() > 150
    assert alpha[0, 1] == alpha[47, 47] == 0
    assert 0.4 < alpha[30, 5] / alpha.max() < 0.6
    assert pixels[15, 35, 0] > 2 * pixels[15, 35, 1]


def test_the_map_of_pure_noise_is_still_small_enough_for_a_row():
    noise = np.random.default_rng(0).random((CELLS, CELLS)).astype(np.float32)
    assert len(loss_map(noise)) < 1400
    assert len(loss_map(np.zeros_like(noise))) < 300
