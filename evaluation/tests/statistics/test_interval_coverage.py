"""Do the intervals keep their promise? Populations with a known half-life, drawn 500 times."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from evaluation.statistics.half_life import event
from evaluation.statistics.ranking import Ranks, interval
from evaluation.statistics.resampling import replicate
from evaluation.testing.chains import at_crossing, halving, run_of, spread_times

DRAWS = 500
PICTURES, TRIPS, MEDIAN, SPREAD = 100, 20, 8.0, 0.4  # 300 cases: the size of v1

pytestmark = pytest.mark.slow


def draws(seed, batch=50):
    """Replicates of runs drawn from the same population; batches bound the memory."""
    random = np.random.default_rng(seed)
    for _ in range(DRAWS // batch):
        runs = {
            f"draw-{i}": run_of(
                spread_times(PICTURES, random, median=MEDIAN, picture=SPREAD, case=SPREAD)
            )
            for i in range(batch)
        }
        yield from replicate(runs, TRIPS).values()


def test_the_intervals_cover_what_they_should():
    half_life = at_crossing(MEDIAN)
    grid = norm.ppf((np.arange(4000) + 0.5) / 4000) * SPREAD * np.sqrt(2)
    usable = np.mean([event(halving(MEDIAN * np.exp(z)), TRIPS, 0.5).time for z in grid])
    covered = np.zeros(2)
    for drawn in draws(seed=1):
        for i, (values, truth) in enumerate(
            [(drawn.half_life, half_life), (drawn.usable_trips, usable)]
        ):
            bounds = interval(values)
            high = np.inf if bounds.high is None else bounds.high
            covered[i] += bounds.low <= truth <= high
    assert 0.93 <= covered[0] / DRAWS <= 0.97, covered
    assert 0.93 <= covered[1] / DRAWS <= 0.97, covered


def test_two_equal_models_share_a_rank():
    """Two models of the same population, on pictures that are hard or easy for both."""
    random = np.random.default_rng(2)
    shared = 0
    for _ in range(DRAWS // 50):
        runs = {}
        for i in range(50):
            common = spread_times(PICTURES, random, median=MEDIAN, picture=SPREAD, case=SPREAD / 2)
            for name in "ab":
                own = spread_times(PICTURES, random, median=1, picture=0, case=SPREAD / 2)
                runs[f"{name}-{i}"] = run_of(common * own)
        drawn = replicate(runs, TRIPS, resamples=1_000)
        for i in range(50):
            ranks = Ranks([drawn[f"a-{i}"], drawn[f"b-{i}"]])
            shared += not (ranks.separated(0, 1) or ranks.separated(1, 0))
    assert shared / DRAWS >= 0.9
