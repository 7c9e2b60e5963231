"""Dynamics of simulated orbits of known kinds, on images of 4,000 values."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.analysis.dynamics import (
    REGIMES,
    dynamics,
    summarise_dynamics,
)

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
    result = of_orbit(lambda x: np.round(x * 3) / 3, start)
    assert (result.regime, result.contraction) == ("idempotent", 0)
    assert dynamics([0.1, *[0.0] * 19], 0.1, limit_retention=0.2).limit_retention == 0.2


def test_an_editor_that_never_moves_is_idempotent_without_a_path(start):
    result = of_orbit(lambda x: x, start)
    assert (result.regime, result.contraction, result.path_efficiency) == ("idempotent", 0, None)


def test_one_jump_and_a_faint_flicker_are_not_a_drift():
    assert dynamics([0.1, *[0.001] * 19], 0.1).regime == "idempotent"


@pytest.mark.parametrize("factor", [0.4, 0.8, 0.9, 0.95])
def test_a_contraction_is_found_with_its_factor(start, factor):
    result = of_orbit(lambda x: 0.5 + factor * (x - 0.5), start)
    assert result.contraction == pytest.approx(factor)
    assert result.regime == "contracting"
    assert result.contraction_low <= factor + 1e-9
    assert result.contraction_high >= factor - 1e-9


def test_noise_at_every_step_wanders(start):
    random = np.random.default_rng(1)
    result = of_orbit(lambda x: x + random.normal(0, 0.01, x.shape), start)
    assert result.regime == "wandering"
    assert result.path_efficiency == pytest.approx(1 / np.sqrt(N), rel=0.1)


def test_a_tint_at_every_step_drifts(start):
    result = of_orbit(lambda x: x + 0.01, start)
    assert (result.regime, result.path_efficiency) == ("drifting", pytest.approx(1))


@pytest.mark.parametrize(
    ("steps", "distance"),
    [
        ([0.1, 0.1, 0.1, 0.1], 0.4),  # too few trips
        ([0.1], 0.1),
        ([], 0.0),
        ([0.1] * 20, 1.0),  # half straight, half crooked
        ([0.01 * 1.2**n for n in range(20)], 1.5),  # growing
        ([0.1, 0.01, 0.2, 0.01, 0.3, 0.01, 0.02, 0.05], 0.2),  # no clear trend
    ],
)
def test_unclear_steps_are_undetermined(steps, distance):
    assert dynamics(steps, distance).regime == "undetermined"


def test_impossible_steps_are_refused():
    for steps in ([-0.1] * 6, [float("nan")] * 6):
        with pytest.raises(ValueError, match="finite"):
            dynamics(steps, 0.1)


@given(st.lists(st.floats(0, 1, allow_subnormal=False), max_size=25), st.floats(0, 1))
def test_any_steps_give_a_regime_and_valid_json(steps, distance):
    result = dynamics(steps, distance)
    assert result.regime in REGIMES
    json.dumps(asdict(result), allow_nan=False)


def test_a_run_has_the_medians_of_its_chains():
    chains = [dynamics([q**n for n in range(N)], 1.0, q) for q in (0.8, 0.85, 0.9)]
    result = summarise_dynamics(chains)
    assert result.contraction == pytest.approx(0.85)
    assert result.limit_retention == 0.85
    assert result.regimes["contracting"] == result.chains == 3
    assert summarise_dynamics([]).contraction is None


def test_impossibly_steep_steps_do_not_overflow():
    assert np.isfinite(dynamics([1e-320, 1.0], 1.0).contraction)
