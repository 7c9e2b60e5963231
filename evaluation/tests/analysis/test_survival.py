"""Kaplan-Meier and Aalen-Johansen compared with lifelines, scipy and a published table."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from lifelines import AalenJohansenFitter, KaplanMeierFitter
from lifelines.datasets import load_waltons
from lifelines.utils import restricted_mean_survival_time
from scipy.stats import CensoredData, ecdf

from evaluation.analysis.events import CAUSES, event
from evaluation.analysis.half_life import summarise
from evaluation.analysis.survival import Survival, chain_weights
from evaluation.testing.chains import chain, halving
from evaluation.tests.analysis.random_chains import chains_of_a_run

N = 20


def arm(ended, going, trips):
    """Return chains that broke and chains that were lost after these numbers of trips."""
    return [
        chain(*[0.9] * time, outcome=outcome, image=f"{outcome}-{i}")
        for outcome, times in (("failed", ended), ("lost", going))
        for i, time in enumerate(times)
        if time < trips or outcome == "lost"
    ]


def test_kaplan_meier_agrees_with_the_published_worked_example():
    """Freireich et al. 1963, 6-MP arm, weeks in remission: median 23, S(10) = 0.753."""
    ended = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    going = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    summary = summarise(arm(ended, going, 35), 35)
    assert summary.half_life == 23
    published = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}
    assert {week: round(summary.survival[week], 3) for week in published} == published


def test_kaplan_meier_agrees_with_lifelines_on_its_own_data():
    waltons = load_waltons()
    ended = waltons["T"][waltons["E"] == 1].astype(int).tolist()
    going = waltons["T"][waltons["E"] == 0].astype(int).tolist()
    summary = summarise(arm(ended, going, 80), 80)
    fitted = KaplanMeierFitter().fit(waltons["T"], waltons["E"])
    assert summary.half_life == fitted.median_survival_time_
    expected = fitted.survival_function_at_times(range(81))
    assert summary.survival == pytest.approx(expected.tolist())
    assert summary.usable_trips == pytest.approx(restricted_mean_survival_time(fitted, t=80))


def test_equal_categories_agree_with_the_weighted_curve_of_lifelines_without_lost_chains():
    random = np.random.default_rng(3)
    sizes = {"objects": 20, "geometric": 4, "colour": 6}
    run = [
        halving(random.uniform(2, 40), image=f"{category}-{i}", category=category)
        for category, size in sizes.items()
        for i in range(size)
    ]
    assert chain_weights(run).sum() == pytest.approx(1)
    weights = [60 // sizes[c.category] for c in run]
    events = [event(c, N, 0.5) for c in run]
    fitted = KaplanMeierFitter().fit(
        [e.time for e in events], [e.cause is not None for e in events], weights=weights
    )
    summary = summarise(run, N)
    assert summary.half_life == pytest.approx(fitted.median_survival_time_)
    expected = fitted.survival_function_at_times(range(N + 1))
    assert summary.survival == pytest.approx(expected.tolist())


def test_incidence_agrees_with_aalen_johansen_of_lifelines_with_lost_chains():
    random = np.random.default_rng(4)
    run = []
    for i in range(60):
        whole = halving(random.uniform(2, 40), image=f"p{i:02}")
        kept = int(random.integers(0, N))
        ends = ["completed", "completed", "refused", "failed", "lost", "lost"]
        outcome = str(random.choice(ends))
        cut = whole.retention if outcome == "completed" else whole.retention[:kept]
        run.append(replace(whole, retention=cut, outcome=outcome))
    run = [c for c in run if c.played]
    events = [event(c, N, 0.5) for c in run]
    summary = summarise(run, N)
    codes = {cause: code for code, cause in enumerate(CAUSES, 1)}
    times = np.array([e.time for e in events])
    kinds = np.array([codes.get(e.cause, 0) for e in events])
    # lifelines would separate equal times at random and drop those at 0. They are separated here as
    # in the method: ended chains come before censored ones.
    moved = times.copy()
    moved[np.lexsort((kinds == 0, times))] += 1e-7 * np.arange(1, len(times) + 1)
    for cause in ("whole", "refused", "failed"):
        fitter = AalenJohansenFitter(calculate_variance=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted = fitter.fit(moved, kinds, event_of_interest=codes[cause])
        curve = fitted.cumulative_density_.iloc[:, 0]
        expected = [curve[curve.index <= n + 1e-4].iloc[-1] for n in range(N + 1)]
        assert summary.incidence[cause] == pytest.approx(expected, abs=1e-9)
        assert summary.incidence[cause][-1] > 0


@given(chains_of_a_run())
def test_one_category_is_plain_kaplan_meier(chains):
    chains = [replace(c, category="a") for c in chains if c.played]
    if not chains:
        return
    events = [event(c, 6, 0.5) for c in chains]
    data = CensoredData(
        uncensored=[e.time for e in events if e.cause],
        right=[e.time for e in events if not e.cause],
    )
    expected = ecdf(data).sf.evaluate(np.arange(7))
    assert summarise(chains, 6).survival == pytest.approx(list(expected))


@given(chains_of_a_run())
def test_the_area_under_the_steps_is_the_usable_trips(chains):
    chains = [c for c in chains if c.played]
    if not chains:
        return
    survival = Survival.of(chains, [event(c, 6, 0.5) for c in chains], 6)
    times, shares = survival.steps()
    assert (times[0], times[-1]) == (0, 6)
    assert np.diff(times) @ shares[:-1] == pytest.approx(survival.usable_trips(6))


def test_three_quarters_of_two_thirds_are_a_half():
    """Kaplan-Meier multiplies fractions; rounding must not move the median past one half."""
    assert summarise(arm([1, 1, 3], [2, 2, 2, 6, 6], 6), 6).half_life == 3
    for size in range(2, 60):
        half = arm(range(1, size // 2 + 1), [60] * (size - size // 2), 60)
        assert (summarise(half, 60).half_life is None) == bool(size % 2)
