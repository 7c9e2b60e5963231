from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from evaluation.statistics.comparison import compare
from evaluation.testing.chains import chain, run_of, spread_times


@pytest.fixture
def times():
    return spread_times(30, np.random.default_rng(0))


def test_only_shared_cases_are_compared(times):
    first, second = run_of(times), run_of(times / 2)
    extra = chain(outcome="failed", picture="only here")
    found = compare([*first, extra], second[3:], 20)
    assert (found.cases, found.pictures) == (87, 29)
    assert found.first.events["failed"] == 0
    with pytest.raises(ValueError, match="no case in common"):
        compare(first, [extra], 20)


def test_a_clear_difference_needs_no_more_cases(times):
    found = compare(run_of(times), run_of(times / 2), 20)
    assert found.separated
    assert found.p_ahead == 1
    assert found.half_life.estimate > 0
    assert found.half_life.interval.low > 0
    assert found.half_life.more_cases == found.usable_trips.more_cases == found.auc.more_cases == 0


def test_turning_the_comparison_round_turns_the_signs(times):
    first, second = run_of(times), run_of(spread_times(30, np.random.default_rng(9)))
    one, two = compare(first, second, 20), compare(second, first, 20)
    assert one.usable_trips.estimate == pytest.approx(-two.usable_trips.estimate)
    assert one.usable_trips.interval.low == pytest.approx(-two.usable_trips.interval.high)
    assert one.p_ahead == pytest.approx(1 - two.p_ahead)
    assert one.separated == two.separated
    assert one.usable_trips.more_cases == two.usable_trips.more_cases


def test_twins_cannot_be_separated_by_any_number_of_cases(times):
    found = compare(run_of(times), run_of(times), 20)
    assert (found.separated, found.p_ahead) == (False, 0.5)
    assert found.usable_trips.estimate == 0
    assert found.usable_trips.more_cases is None


def test_the_number_of_cases_it_asks_for_does_separate():
    """A small true difference: what 20 pictures leave open, the answer's number shows."""
    random = np.random.default_rng(4)

    def pair_of_runs(pictures):
        common = spread_times(pictures, random, case=0.2)
        luck = [spread_times(pictures, random, median=1, picture=0, case=0.3) for _ in "ab"]
        return run_of(common * luck[0] * 1.12), run_of(common * luck[1])

    found = compare(*pair_of_runs(20), 20)
    while found.usable_trips.more_cases in (0, None) or found.usable_trips.estimate < 0.5:
        found = compare(*pair_of_runs(20), 20)
    pictures = 20 + found.usable_trips.more_cases // 3 + 1
    shown = [compare(*pair_of_runs(pictures), 20).usable_trips.more_cases == 0 for _ in range(20)]
    assert sum(shown) >= 10


def test_an_unreached_half_life_counts_as_n_and_json_takes_it():
    perfect = [chain(*[1.0] * 20, picture=f"p{i}") for i in range(8)]
    broken = [chain(*[1.0] * 5, outcome="failed", picture=f"p{i}") for i in range(8)]
    found = compare(perfect, broken, 20)
    assert found.half_life.estimate == 15
    assert found.separated
    json.dumps(asdict(found), allow_nan=False)
    same = compare(perfect, perfect, 20)
    assert same.half_life.estimate == 0
    json.dumps(asdict(same), allow_nan=False)


def test_a_few_pictures_give_differences_without_intervals():
    perfect = [chain(*[1.0] * 20, picture=f"p{i}") for i in range(3)]
    broken = [chain(outcome="failed", picture=f"p{i}") for i in range(3)]
    found = compare(perfect, broken, 20)
    assert found.usable_trips.estimate == 20
    assert found.usable_trips.interval is None
    assert found.usable_trips.more_cases is None
    assert not found.separated


def test_a_comparison_without_auc_says_so():
    lost = [chain(0.9, outcome="lost", picture=f"p{i}") for i in range(8)]
    assert compare(lost, lost, 20).auc is None
