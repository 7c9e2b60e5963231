from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from evaluation.analysis.case_values import case_values
from evaluation.analysis.diagnostics.curve_shape import SHAPES, curve_shape
from evaluation.testing.chains import run_of, spread_times

N = np.arange(21)
CURVES = {
    "linear": 1 - 0.04 * N,
    "exponential": np.exp(-0.1 * N),
    "plateau": 0.6 + 0.4 * np.exp(-0.3 * N),
}


def draws(curve, noise, number=20):
    random = np.random.default_rng(0)
    return np.asarray(curve) + random.normal(0, noise, (number, len(curve))) * (N > 0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("noise", [0.0, 0.002])
def test_a_clear_shape_is_found(shape, noise):
    found = curve_shape(CURVES[shape].tolist(), draws(CURVES[shape], noise))
    assert found.shape == shape
    assert found.weights[shape] >= 0.9
    assert sum(found.weights.values()) == pytest.approx(1)


def test_the_parameters_come_back():
    def found(shape):
        return curve_shape(CURVES[shape].tolist(), draws(CURVES[shape], 0))

    assert found("linear").rate == pytest.approx(0.04)
    assert found("exponential").rate == pytest.approx(0.1, rel=1e-3)
    plateau = found("plateau")
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
    ],
)
def test_what_the_curve_does_not_tell_is_undetermined(curve):
    drawn = [] if None in curve else [curve] * 20
    found = curve_shape(curve, drawn)
    assert found.shape == "undetermined"
    assert found.rate is None
    json.dumps(asdict(found), allow_nan=False)


def test_a_wide_error_leaves_the_shape_open():
    assert curve_shape(CURVES["linear"].tolist(), draws(CURVES["linear"], 0.2)).shape == (
        "undetermined"
    )


def test_draws_of_the_curve_show_how_sure_the_shape_is():
    run = run_of(spread_times(30, np.random.default_rng(0), picture=0.1, case=0.1))
    values = case_values(run, 20)
    mean = values.design.mean(values.curve)
    sure = curve_shape(mean.tolist(), mean + values.design.draws(values.curve, 100))
    assert sure.shape == "exponential"
    torn = curve_shape(CURVES["linear"], [CURVES["linear"], CURVES["plateau"]])
    assert torn.weights == {"linear": 0.5, "exponential": 0.0, "plateau": 0.5}
    assert torn.shape == "undetermined"


def test_without_draws_nothing_is_sure():
    """A suite too small for an interval is too small for a shape."""
    assert curve_shape(CURVES["linear"].tolist(), []).shape == "undetermined"
