from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifelines import KaplanMeierFitter
from lifelines.utils import restricted_mean_survival_time

from evaluation.analysis.case_values import case_values, chain_auc, extended_curve
from evaluation.analysis.events import event
from evaluation.analysis.half_life import summarise, summary_and_values
from evaluation.testing.chains import chain, halving, run_of, spread_times
from evaluation.tests.analysis.random_chains import chains_of_a_run

N = 20


def test_without_lost_chains_a_cases_value_is_the_mean_of_its_chains():
    run = run_of(np.random.default_rng(1).uniform(2, 30, (9, 3, 2)), repeats=2)
    values = case_values(run, N)
    assert len(values.cases) == 27
    for case, usable, auc in zip(values.cases, values.usable, values.auc, strict=True):
        own = [c for c in run if c.case == case]
        assert usable == pytest.approx(np.mean([event(c, N, 0.5).time for c in own]))
        assert auc == pytest.approx(np.mean([chain_auc(c, N) for c in own]))


@given(chains_of_a_run(), st.integers(0, 3))
def test_the_mean_of_the_values_is_the_runs_number_whatever_was_lost(chains, repeats):
    chains = [replace(c, repeat=r) for c in chains for r in range(repeats + 1)]
    summary, values = summary_and_values(chains, 6)
    if not values.cases:
        assert summary.usable_trips is None
        return
    assert values.design.mean(values.usable) == pytest.approx(summary.usable_trips)
    curve = values.design.mean(values.curve)
    assert curve == pytest.approx([np.nan if q is None else q for q in summary.curve], nan_ok=True)


def test_pseudo_values_equal_those_of_lifelines():
    run = run_of(np.random.default_rng(2).uniform(2, 30, (12, 3)), loss=0.4)
    run = [replace(c, category="one") for c in run if c.played]
    assert sum(c.outcome == "lost" for c in run) >= 3

    def restricted_mean(chains):
        events = [event(c, N, 0.5) for c in chains]
        fitter = KaplanMeierFitter().fit(
            [e.time for e in events], [e.cause is not None for e in events]
        )
        return restricted_mean_survival_time(fitter, t=N)

    whole, size = restricted_mean(run), len(run)
    values = case_values(run, N)
    expected = np.array(
        [
            size * whole - (size - 1) * restricted_mean([c for c in run if c.case != case])
            for case in values.cases
        ]
    )
    assert values.usable == pytest.approx(expected + whole - expected.mean(), abs=1e-9)
    assert abs(whole - expected.mean()) < 0.05  # the shift hardly matters


def test_a_lost_chain_changes_only_values_of_its_category():
    run = run_of(np.random.default_rng(3).uniform(2, 30, (12, 3)))
    cut = replace(run[0], retention=run[0].retention[:1], outcome="lost")
    before, after = case_values(run, N), case_values([cut, *run[1:]], N)
    for case, one, two in zip(before.cases, before.usable, after.usable, strict=True):
        if case.category != cut.category:
            assert one == pytest.approx(two)
    assert (before.usable != after.usable).any()


def test_a_category_whose_only_case_was_lost_keeps_its_measured_value():
    values = case_values([chain(0.9, 0.9, outcome="lost"), halving(5, pair="cup", category="x")], N)
    assert values.usable.tolist() == pytest.approx([event(halving(5), N, 0.5).time, N])


def test_a_lost_case_takes_the_mean_of_its_category():
    run = [
        chain(0.9, 0.8, image="a"),
        chain(0.7, 0.4, image="b"),
        chain(0.5, outcome="lost", image="c"),
        chain(0.2, 0.1, image="d", category="other"),
    ]
    curve = case_values(run, 2).curve
    assert curve[:, 1].tolist() == pytest.approx([0.9, 0.7, 0.5, 0.2])
    assert curve[:, 2].tolist() == pytest.approx([0.6 + 0.3, 0.6 - 0.3, 0.6, 0.1])
    assert summarise(run, 2).curve[2] == pytest.approx((0.6 + 0.1) / 2)


def test_a_lost_category_takes_the_mean_of_the_others():
    run = [
        chain(0.9, 0.8, image="a"),
        chain(0.7, 0.4, image="b"),
        chain(0.5, outcome="lost", category="other"),
    ]
    values = case_values(run, 2)
    assert values.design.mean(values.curve).tolist() == pytest.approx([1, 0.65, 0.6])
    no_values = case_values([chain(0.5, outcome="lost")], 2)
    assert np.isnan(no_values.curve).tolist() == [[False, False, True]]
    assert np.isnan(no_values.auc).all()
    assert no_values.usable.tolist() == [1]


def test_a_chain_that_breaks_below_zero_does_not_raise_the_mean_curve():
    assert list(extended_curve(chain(-0.5, outcome="failed"), 3)) == [1, -0.5, -0.5, -0.5]
    assert list(extended_curve(chain(0.8, outcome="failed"), 3)) == [1, 0.8, 0, 0]


def test_a_broken_chain_counts_zero_after_its_last_whole_trip():
    assert chain_auc(chain(outcome="refused"), N) == 0
    assert chain_auc(chain(0.8, outcome="refused"), 2) == pytest.approx(0.45)
    assert chain_auc(chain(0.8, 0.0), 2) == pytest.approx(0.65)
    assert chain_auc(chain(0.8, -3.0), 2) == pytest.approx(0.65)
    assert chain_auc(chain(0.8, 0.6, outcome="refused"), 2) == pytest.approx(0.8)
    assert chain_auc(chain(0.8, outcome="lost"), 2) == pytest.approx(0.45)


def test_values_stored_in_the_suites_order_rank_any_scope():
    """The site stores one number per case, in the order of the suite's cases."""
    run = run_of(spread_times(12, np.random.default_rng(0)))
    values = case_values(run, N)
    order = [values.cases[n] for n in np.random.default_rng(1).permutation(len(values.cases))]
    stored = values.aligned(order)
    assert stored.tolist() == values.only(order).usable.tolist()
    for scope in ("all", "category:objects", "kind:face", "pair:objects-0"):
        own = [case for case in order if scope in case.scopes]
        rows = [scope in case.scopes for case in order]
        expected = summarise([c for c in run if scope in c.case.scopes], N).usable_trips
        assert values.only(own).design.mean(stored[rows]) == pytest.approx(expected)
    missing = case_values(run[1:], N).aligned(order)
    assert np.isnan(missing).sum() == 1
    with pytest.raises(KeyError):
        case_values(run[1:], N).only(order)
