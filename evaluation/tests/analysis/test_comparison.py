from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy import stats

from evaluation.analysis.case_values import case_values
from evaluation.analysis.comparison import compare
from evaluation.analysis.half_life import summarise
from evaluation.analysis.ranking import Bounds
from evaluation.testing.chains import chain, halving, run_of, spread_times


@pytest.fixture
def times():
    return spread_times(30, np.random.default_rng(0))


def compared(first, second, trips=20):
    return compare(case_values(first, trips), case_values(second, trips))


def constant(*retention, count=12, **fields):
    return [chain(*retention, image=f"p{i}", pair=f"q{i}", **fields) for i in range(count)]


def test_only_shared_cases_are_compared(times):
    first, second = run_of(times), run_of(times / 2)
    extra = chain(outcome="failed", image="only here")
    result = compared([*first, extra], second[3:])
    assert (result.cases, result.images, result.pairs) == (87, 29, 24)
    alone = summarise(first[3:], 20)
    assert result.first.usable_trips == pytest.approx(alone.usable_trips)
    assert result.first.half_life == pytest.approx(alone.half_life)
    assert result.first.auc == pytest.approx(alone.auc)
    with pytest.raises(ValueError, match="no case in common"):
        compared(first, [extra])


def test_runs_of_suites_of_different_lengths_are_not_compared(times):
    run = run_of(times)
    with pytest.raises(ValueError, match="20 trips, the other 10"):
        compare(case_values(run, 20), case_values(run, 10))


def test_a_clear_difference_needs_no_more_cases(times):
    result = compared(run_of(times), run_of(times / 2))
    assert result.separated
    assert result.p_ahead == pytest.approx(1, abs=1e-4)
    assert result.usable_trips.interval.low > 0
    assert result.usable_trips.more_cases == result.auc.more_cases == 0


def test_swapping_the_runs_swaps_the_signs(times):
    first, second = run_of(times), run_of(spread_times(30, np.random.default_rng(9)))
    one, two = compared(first, second), compared(second, first)
    for name in ("usable_trips", "auc"):
        a, b = getattr(one, name), getattr(two, name)
        assert a.estimate == pytest.approx(-b.estimate)
        assert a.interval.low == pytest.approx(-b.interval.high)
        assert a.more_cases == b.more_cases
    assert one.p_ahead == pytest.approx(1 - two.p_ahead)
    assert one.separated == two.separated


def test_the_interval_is_students_t_around_the_paired_difference(times):
    first, second = case_values(run_of(times), 20), case_values(run_of(times * 0.9), 20)
    result = compare(first, second)
    design = first.design
    error = design.difference_errors(first.usable[:, None], second.usable[:, None], 20)[0]
    reach = stats.t.ppf(0.975, design.freedom) * error
    assert result.usable_trips.interval.high == pytest.approx(result.usable_trips.estimate + reach)
    expected = stats.t.cdf(result.usable_trips.estimate / error, design.freedom)
    assert result.p_ahead == pytest.approx(expected)


def test_pairing_detects_differences_that_separate_intervals_miss():
    """One run lasts a fifth less on every case; cases differ widely."""
    times = spread_times(30, np.random.default_rng(0), image=0.6, case=0.6)
    first, second = case_values(run_of(times), 20), case_values(run_of(times * 0.8), 20)
    assert compare(first, second).separated
    assert Bounds.of(first).usable_trips.low < Bounds.of(second).usable_trips.high


def test_twins_cannot_be_separated_by_any_number_of_cases(times):
    result = compared(run_of(times), run_of(times))
    assert (result.separated, result.p_ahead) == (False, 0.5)
    assert result.usable_trips.estimate == 0
    assert result.usable_trips.more_cases is None


def test_the_proposed_number_of_cases_separates_the_runs():
    """20 images cannot show a small true difference, but the proposed number of cases can."""
    random = np.random.default_rng(4)

    def pair_of_runs(images):
        """Return two runs in which every case has its own pair."""
        common = spread_times(images, random, case=0.2)
        luck = [spread_times(images, random, median=1, image=0, case=0.3) for _ in "ab"]
        runs = run_of(common * luck[0] * 1.12), run_of(common * luck[1])
        return tuple([replace(c, pair=f"{c.pair}-{c.image}") for c in run] for run in runs)

    result = compared(*pair_of_runs(20))
    while result.usable_trips.more_cases in (0, None) or result.usable_trips.estimate < 0.5:
        result = compared(*pair_of_runs(20))
    images = 20 + result.usable_trips.more_cases // 3 + 1
    shown = [compared(*pair_of_runs(images)).usable_trips.more_cases == 0 for _ in range(20)]
    assert sum(shown) >= 10


def test_a_half_life_beyond_the_suite_is_none_and_valid_json():
    perfect, broken = constant(*[1.0] * 20), constant(*[1.0] * 5, outcome="failed")
    result = compared(perfect, broken)
    assert result.usable_trips.estimate == 15
    assert result.first.half_life is None
    assert result.second.half_life == 5
    assert result.separated
    json.dumps(asdict(result), allow_nan=False)
    same = compared(perfect, perfect)
    assert same.usable_trips.estimate == 0
    json.dumps(asdict(same), allow_nan=False)


def test_a_longer_half_life_with_fewer_usable_trips_is_noticed():
    """One run lasts 9 trips on every case; the other lasts forever on half of them, else not at all."""
    steady = [halving(9, image=f"p{i:02}", pair=f"q{i % 15}") for i in range(30)]
    torn = [
        chain(*[1.0 if i % 10 > 4 else 0.0] * 20, image=f"p{i:02}", pair=f"q{i % 15}")
        for i in range(30)
    ]
    result = compared(torn, steady)
    assert result.first.usable_trips > result.second.usable_trips
    assert result.first.half_life < result.second.half_life
    assert result.crossed == compared(steady, torn).crossed == "late"
    lasting = compared([replace(c, retention=(1.0,) * 20) for c in torn], steady)
    assert not lasting.crossed
    assert not compared(steady, steady).crossed


def test_a_model_that_loses_fewer_images_early_is_ahead_early():
    """All chains of one run last 10 trips; in the other nearly half fall at once, the rest at 12."""
    whole = [halving(10, image=f"p{i:02}", pair=f"q{i % 15}") for i in range(30)]
    torn = [
        halving(12 if i % 15 > 6 else 0.2, image=f"p{i:02}", pair=f"q{i % 15}") for i in range(30)
    ]
    result = compared(whole, torn)
    assert result.usable_trips.estimate > 0
    assert result.first.half_life < result.second.half_life
    assert result.crossed == "early"


def test_too_few_images_give_differences_without_intervals():
    result = compared(constant(*[1.0] * 20, count=3), constant(outcome="failed", count=3))
    assert result.usable_trips.estimate == 20
    assert result.usable_trips.interval is result.usable_trips.more_cases is result.p_ahead is None
    assert not result.separated


def test_a_comparison_without_auc_has_none():
    lost = constant(0.9, outcome="lost")
    assert compared(lost, lost).auc is None
