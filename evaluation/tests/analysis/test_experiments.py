"""Experiments: planted effects are found, and no effect is claimed without one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evaluation.analysis import experiment_words as words
from evaluation.analysis.covariance import Design, t_quantile
from evaluation.analysis.experiments import (
    experiment_numbers,
    holm,
    rank_test,
    signed_rank,
    simultaneous_half_widths,
)
from evaluation.analysis.power import Lifetimes, suite_design
from evaluation.content import catalog
from evaluation.testing.chains import chain, halving, made_up_cases
from evaluation.testing.simulations.experiments import FALSE_POSITIVES, drawn, simulate

LITE = suite_design(catalog.suite("lite"))
SMOKE = suite_design(catalog.suite("smoke"))


def arms(times, trips=8, design=SMOKE):
    """Return chains that fall to one half at the arm's time in every case."""
    return {
        name: [halving(time, trips, **case._asdict(), repeat=0) for case in design.cases]
        for name, time in times.items()
    }


def test_without_an_effect_at_most_one_experiment_in_twenty_claims_one():
    for own, repeats in ((0.2, 1), (0.2, 3)):
        lifetimes = Lifetimes(3.2, own_image=own, own_pair=own)
        seen = simulate(SMOKE, 8, lifetimes, 40, repeats=repeats)
        assert seen.false <= FALSE_POSITIVES


def test_a_planted_effect_is_found_and_no_other():
    seen = simulate(LITE, 10, Lifetimes(4.0, own_image=0.1, own_pair=0.1), 20, {"long": 0.4})
    assert seen.exact >= 0.9
    assert seen.false <= FALSE_POSITIVES
    assert seen.covered >= 0.9


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=8))
def test_the_signed_rank_test_equals_scipys_with_ties_and_zeros(halves):
    differences = np.array(halves) / 2
    expected = stats.wilcoxon(differences, zero_method="zsplit").pvalue if any(halves) else 1.0
    assert signed_rank(differences) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("rows", [13, 14])
def test_many_differences_with_ties_are_tested_as_by_scipy(rows):
    assert signed_rank(np.zeros(rows)) == 1.0
    differences = np.resize([0.5, 1.0, -0.5, 2.0], rows)
    expected = stats.wilcoxon(differences, zero_method="zsplit").pvalue
    assert signed_rank(differences) == pytest.approx(expected, abs=1e-12)


def test_equal_arms_have_no_effect_and_a_different_arm_has_its_exact_effect():
    numbers = experiment_numbers(arms({"plain": 4.0, "same": 4.0, "less": 2.0}), 8)
    assert [effect.sure for effect in numbers.effects] == [False, False, True]
    assert numbers.effects[1].difference == 0
    assert numbers.effects[2].difference == pytest.approx(-2.0, abs=0.05)
    assert numbers.effects[0].usable_trips == pytest.approx(4.0, abs=0.05)
    assert numbers.ranks.mean_ranks == {"plain": 1.5, "same": 1.5, "less": 3.0}
    assert numbers.ranks.p < words.SIGNIFICANT


def test_one_arm_has_students_interval_and_several_arms_have_wider_ones():
    random = np.random.default_rng(0)
    design = Design(made_up_cases(40, 16, 24, 6))
    usable = random.normal(5, 1, (40, 6))
    alone = simultaneous_half_widths(design, usable[:, :2], 10)
    assert alone == pytest.approx(
        t_quantile(0.975, design.freedom)
        * design.difference_errors(usable[:, :1], usable[:, 1:2], 10)
    )
    together = simultaneous_half_widths(design, usable, 10)
    assert together[0] > 1.1 * alone[0]


def test_few_images_give_differences_without_an_interval():
    few = Design(made_up_cases(6, 3, 3, 1))
    numbers = experiment_numbers(arms({"plain": 4.0, "less": 2.0}, design=few), 8)
    assert not numbers.enough
    assert numbers.effects[1].low is None
    assert not numbers.sure_effects
    assert "too few to tell arms apart" in words.finding(numbers.to_dict())


def test_friedmans_and_the_post_hoc_tests_equal_scipys_with_holms_correction():
    random = np.random.default_rng(1)
    usable = random.normal(5, 1, (30, 4)) + np.array([0, 0, 1.5, 0])
    result = rank_test("abcd", usable)
    assert result.p == pytest.approx(stats.friedmanchisquare(*usable.T).pvalue)
    raw = [
        stats.wilcoxon(usable[:, j] - usable[:, i], zero_method="zsplit").pvalue
        for i in range(4)
        for j in range(i + 1, 4)
    ]
    order = np.argsort(raw)
    wanted = np.empty(6)
    wanted[order] = np.minimum(1, np.maximum.accumulate((6 - np.arange(6)) * np.array(raw)[order]))
    assert [pair.p for pair in result.pairs] == pytest.approx(wanted.tolist())
    assert holm([]) == []
    assert {(p.first, p.second) for p in result.pairs if p.p < 0.05} == {
        ("a", "c"),
        ("b", "c"),
        ("c", "d"),
    }


def test_rank_tests_accept_two_arms_and_equal_arms():
    same = rank_test("abc", np.full((10, 3), 4.0))
    assert (same.statistic, same.p) == (0.0, 1.0)
    two = rank_test("ab", np.column_stack([np.full(10, 4.0), np.linspace(1, 3, 10)]))
    assert two.test == "signed-rank"
    assert two.p < 0.05
    assert rank_test("abc", np.ones((1, 3))).p is None


def test_sensitivity_is_by_category_and_reruns_are_by_arm():
    random = np.random.default_rng(3)
    chains = drawn(SMOKE, 8, Lifetimes(3.2), random, {"long": 0.3}, repeats=3)
    numbers = experiment_numbers(chains, 8)
    categories = {case.category for case in SMOKE.cases}
    assert {row.category for row in numbers.sensitivity} == categories
    assert {row.worst for row in numbers.sensitivity} == {"long"}
    assert all(row.by_rerun and row.by_rerun > 0 for row in numbers.sensitivity)
    spread = numbers.reruns["plain"]
    assert spread.repeats == 3
    assert 0 < spread.icc < 1
    data = numbers.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    for sentence in (
        words.finding(data),
        words.rank_words(data["ranks"]),
        words.pair_words(data["ranks"]),
        words.sensitivity_words(data["sensitivity"]),
        words.rerun_words(data["reruns"]),
    ):
        assert sentence.endswith(".")


def test_only_cases_that_all_arms_have_are_compared():
    both = arms({"plain": 4.0, "less": 2.0})
    both["less"] = both["less"][1:]
    assert experiment_numbers(both, 8).cases == len(SMOKE.cases) - 1
    with pytest.raises(ValueError, match="no case in common"):
        experiment_numbers({"a": [chain(0.9, pair="x")], "b": [chain(0.9, pair="y")]}, 1)
    with pytest.raises(ValueError, match="at least one other arm"):
        experiment_numbers({"a": both["plain"]}, 8)
