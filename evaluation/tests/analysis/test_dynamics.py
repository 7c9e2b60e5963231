"""Orbits of known kind, made of pictures of 4,000 values, and curves of known shape."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.analysis.case_values import case_values
from evaluation.analysis.dynamics import (
    REGIMES,
    SHAPES,
    curve_shape,
    dynamics,
    summarise_dynamics,
)
from evaluation.testing.chains import run_of, spread_times

N = 20


@pytest.fixture
def start():
    return np.random.default_rng(0).uniform(0, 1, 4000)


def of_orbit(step, start, trips=N):
    orbit = [start]
    for _ in range(trips):
        orbit.append(step(orbit[-1]))
    steps = [rmse(a, b) for a, b in itertools.pairwise(orbit)]
    return dynamics(steps, rmse(orbit[0], orbit[-1]))


def rmse(a, b):
    return float(np.sqrt(np.mean((a - b) ** 2)))


def test_a_posteriser_is_idempotent_whatever_it_destroyed(start):
    found = of_orbit(lambda x: np.round(x * 3) / 3, start)
    assert (found.regime, found.contraction) == ("idempotent", 0)
    assert dynamics([0.1, *[0.0] * 19], 0.1, limit_retention=0.2).limit_retention == 0.2


def test_an_editor_that_never_moves_is_idempotent_without_a_path(start):
    found = of_orbit(lambda x: x, start)
    assert (found.regime, found.contraction, found.path_efficiency) == ("idempotent", 0, None)


def test_one_jump_and_a_faint_flicker_is_no_drift():
    assert dynamics([0.1, *[0.001] * 19], 0.1).regime == "idempotent"


@pytest.mark.parametrize("factor", [0.4, 0.8, 0.9, 0.95])
def test_a_contraction_is_found_with_its_factor(start, factor):
    found = of_orbit(lambda x: 0.5 + factor * (x - 0.5), start)
    assert found.contraction == pytest.approx(factor)
    assert found.regime == "contracting"
    assert found.contraction_low <= factor + 1e-9
    assert found.contraction_high >= factor - 1e-9


def test_noise_at_every_step_wanders(start):
    random = np.random.default_rng(1)
    found = of_orbit(lambda x: x + random.normal(0, 0.01, x.shape), start)
    assert found.regime == "wandering"
    assert found.path_efficiency == pytest.approx(1 / np.sqrt(N), rel=0.1)


def test_a_tint_at_every_step_drifts(start):
    found = of_orbit(lambda x: x + 0.01, start)
    assert (found.regime, found.path_efficiency) == ("drifting", pytest.approx(1))


@pytest.mark.parametrize(
    ("steps", "distance"),
    [
        ([0.1, 0.1, 0.1, 0.1], 0.4),  # too few trips
        ([0.1], 0.1),
        ([], 0.0),
        ([0.1] * 20, 1.0),  # half straight, half crooked
        ([0.01 * 1.2**n for n in range(20)], 1.5),  # growing
        ([0.1, 0.01, 0.2, 0.01, 0.3, 0.01, 0.02, 0.05], 0.2),  # no trend to speak of
    ],
)
def test_what_the_steps_do_not_tell_is_undetermined(steps, distance):
    assert dynamics(steps, distance).regime == "undetermined"


def test_impossible_steps_are_refused():
    for steps in ([-0.1] * 6, [float("nan")] * 6):
        with pytest.raises(ValueError, match="finite"):
            dynamics(steps, 0.1)


@given(st.lists(st.floats(0, 1, allow_subnormal=False), max_size=25), st.floats(0, 1))
def test_any_steps_give_a_regime_and_clean_json(steps, distance):
    found = dynamics(steps, distance)
    assert found.regime in REGIMES
    json.dumps(asdict(found), allow_nan=False)


def test_a_run_has_the_medians_of_its_chains():
    chains = [dynamics([q**n for n in range(N)], 1.0, q) for q in (0.8, 0.85, 0.9)]
    found = summarise_dynamics(chains)
    assert found.contraction == pytest.approx(0.85)
    assert found.limit_retention == 0.85
    assert found.regimes["contracting"] == found.chains == 3
    assert summarise_dynamics([]).contraction is None


# Shapes of curves

NUMBERS = np.arange(21)
CURVES = {
    "linear": 1 - 0.04 * NUMBERS,
    "exponential": np.exp(-0.1 * NUMBERS),
    "plateau": 0.6 + 0.4 * np.exp(-0.3 * NUMBERS),
}


def draws(curve, noise, number=20):
    random = np.random.default_rng(0)
    return np.asarray(curve) + random.normal(0, noise, (number, len(curve))) * (NUMBERS > 0)


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
