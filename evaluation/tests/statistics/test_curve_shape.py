from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from evaluation.statistics.curve_shape import SHAPES, curve_shape
from evaluation.statistics.resampling import replicate
from evaluation.testing.chains import run_of, spread_times

N = np.arange(21)
CURVES = {
    "linear": 1 - 0.04 * N,
    "exponential": np.exp(-0.1 * N),
    "plateau": 0.6 + 0.4 * np.exp(-0.3 * N),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_a_clear_shape_is_found(shape, noise):
    curve = CURVES[shape] + np.random.default_rng(0).normal(0, noise, 21) * (N > 0)
    found = curve_shape(curve.tolist())
    assert found.shape == shape
    assert found.weights[shape] > 0.9
    assert sum(found.weights.values()) == pytest.approx(1)


def test_the_parameters_come_back():
    assert curve_shape(CURVES["linear"]).rate == pytest.approx(0.04)
    assert curve_shape(CURVES["exponential"]).rate == pytest.approx(0.1, rel=1e-3)
    plateau = curve_shape(CURVES["plateau"])
    assert (plateau.rate, plateau.floor) == (
        pytest.approx(0.3, rel=0.01),
        pytest.approx(0.6, rel=0.01),
    )


@pytest.mark.parametrize(
    "curve",
    [
        [1.0] * 21,  # it does not fall at all
        [1.0, 0.9, 0.8],  # too short
        [1.0, *[0.9] * 10, None],  # all lost at the end
        (1 + np.random.default_rng(1).normal(0, 0.05, 21) - 0.01 * N).tolist(),
    ],
)
def test_what_the_curve_does_not_tell_is_undetermined(curve):
    found = curve_shape(curve)
    assert found.shape == "undetermined"
    assert found.rate is None
    json.dumps(asdict(found), allow_nan=False)


def test_resampled_curves_show_how_sure_the_shape_is():
    run = run_of(spread_times(30, np.random.default_rng(0), picture=0.1, case=0.1))
    curves = replicate({"run": run}, 20, resamples=100)["run"].curve
    sure = curve_shape(curves.mean(axis=0).tolist(), curves)
    assert sure.shape == "exponential"
    torn = curve_shape(CURVES["linear"], [CURVES["linear"], CURVES["plateau"]])
    assert torn.weights == {"linear": 0.5, "exponential": 0.0, "plateau": 0.5}
    assert torn.shape == "undetermined"
