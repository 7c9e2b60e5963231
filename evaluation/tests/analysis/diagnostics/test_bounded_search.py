from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from evaluation.analysis.diagnostics.bounded_search import least

N = np.arange(1.0, 9)


def test_every_search_ends_where_scipy_ends_it_alone():
    """To the last bit: standings that were stored before must come out again."""
    random = np.random.default_rng(0)
    curves = np.exp(-random.uniform(0.01, 3, (200, 1)) * N) + random.normal(0, 0.05, (200, len(N)))
    # A flat one, one that falls at once, and a line: their least is at a bound, or anywhere.
    curves[:3] = [np.ones(len(N)), np.zeros(len(N)), 1 - 0.1 * N]
    low = random.uniform(1e-5, 0.5, 200)
    high = low + random.uniform(1e-6, 9, 200)

    def errors(rates, own=slice(None)):
        return ((np.exp(-rates[:, None] * N) - curves[own]) ** 2).sum(axis=-1)

    places, values = least(errors, low, high)
    for number, bounds in enumerate(zip(low, high, strict=True)):
        alone = minimize_scalar(
            lambda rate, number=number: errors(np.array([rate]), [number])[0],
            bounds=bounds,
            method="bounded",
        )
        assert (places[number], values[number]) == (alone.x, alone.fun)


def test_nothing_to_search_is_nothing_found():
    places, values = least(np.square, np.empty(0), np.empty(0))
    assert places.size == values.size == 0
