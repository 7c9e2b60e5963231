"""The tiles must leave nothing out: the quantile is that of every pair in every draw."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.analysis.simultaneous import TILE, reach


def every_pair(drawn, errors, least, confidence):
    scale = np.divide(1, errors, out=np.zeros_like(errors), where=errors > least)
    largest = [(np.abs(one[:, None] - one) * scale).max() for one in drawn]
    return float(np.quantile(largest, confidence))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 3 * TILE + 5),
    st.sampled_from([0.5, 0.9, 0.95, 0.999, 1.0]),
    st.floats(0, 3),
)
def test_it_is_the_same_to_the_last_bit(seed, runs, confidence, spread):
    random = np.random.default_rng(seed)
    shares = random.normal(0, 1, (12, runs)) * np.exp(random.normal(0, spread, runs))
    if runs > 3:
        shares[:, 2] = shares[:, 1]  # two runs that never differ
    errors = np.sqrt(np.square(shares[:, :, None] - shares[:, None]).sum(axis=0))
    drawn = random.normal(0, 1, (700, 12)) @ shares
    assert reach(drawn, errors, 1e-9, confidence) == every_pair(drawn, errors, 1e-9, confidence)


@pytest.mark.parametrize("runs", [1, 2 * TILE])
def test_runs_that_never_differ_reach_nothing(runs):
    drawn = np.repeat(np.random.default_rng(1).normal(0, 1, (50, 1)), runs, axis=1)
    assert reach(drawn, np.zeros((runs, runs)), 1e-9, 0.95) == 0
