from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from evaluation.analysis.diagnostics.repeats import repeat_spread
from evaluation.analysis.events import event
from evaluation.testing.chains import chain, halving, run_of


def run_with(case_spread, rerun_spread, repeats=3, pictures=80, shift=(0, 0, 0)):
    random = np.random.default_rng(0)
    cases = random.normal(0, case_spread, (pictures, 3, 1))
    reruns = random.normal(0, rerun_spread, (pictures, 3, repeats))
    times = np.clip(9.5 + cases + reruns + np.array(shift[:repeats]), 1, 19)
    return run_of(times, repeats=repeats)


def test_the_two_spreads_are_told_apart():
    found = repeat_spread(run_with(2.0, 0.5), 20)
    assert (found.repeats, found.cases) == (3, 240)
    assert found.case == pytest.approx(2.0, rel=0.1)
    assert found.rerun == pytest.approx(0.5, rel=0.1)


def test_cases_that_differ_by_luck_alone_have_no_spread_of_their_own():
    found = repeat_spread(run_with(0.0, 1.0), 20)
    assert found.case < 0.3
    assert found.rerun == pytest.approx(1.0, rel=0.1)


def test_friedman_sees_a_model_that_was_changed_between_repeats():
    assert repeat_spread(run_with(2.0, 0.5), 20).friedman_p > 0.05
    assert repeat_spread(run_with(2.0, 0.5, shift=(0, 0, -1)), 20).friedman_p < 1e-6


def test_friedman_is_scipys_over_the_cases_with_every_repeat():
    run = run_with(2.0, 1.0, pictures=6)
    columns = [[event(c, 20, 0.5).time for c in run if c.repeat == r] for r in range(3)]
    expected = friedmanchisquare(*columns)
    missing_one = [*run, halving(5, picture="extra")]
    for found in (repeat_spread(run, 20), repeat_spread(missing_one, 20)):
        assert found.friedman_statistic == pytest.approx(expected.statistic)
        assert found.friedman_p == pytest.approx(expected.pvalue)


def test_reruns_that_are_all_alike_do_not_differ():
    found = repeat_spread(run_with(2.0, 0.0), 20)
    assert (found.rerun, found.friedman_p) == (pytest.approx(0, abs=1e-9), 1)


def test_one_repeat_has_no_spread_and_two_no_friedman():
    single = repeat_spread(run_with(1.0, 1.0, repeats=1), 20)
    assert single.rerun is single.case is single.friedman_p is None
    double = repeat_spread(run_with(1.0, 1.0, repeats=2), 20)
    assert double.rerun is not None
    assert double.friedman_p is None
    lost = repeat_spread([chain(0.9, outcome="lost")], 20)
    assert (lost.cases, lost.rerun) == (0, None)
