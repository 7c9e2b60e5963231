from __future__ import annotations

import itertools
import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.analysis.case_values import case_values
from evaluation.analysis.covariance import Design, Interval, t_quantile
from evaluation.analysis.half_life import summarise, summary_and_values
from evaluation.analysis.ranking import (
    Bounds,
    board,
    rank_board,
    rank_scope,
    significance_factor,
)
from evaluation.testing.chains import chain, halving, made_up_cases, run_of, spread_times
from evaluation.tests.analysis.random_chains import chains_of_a_run

IMAGES = 30


@pytest.fixture
def times():
    return spread_times(IMAGES, np.random.default_rng(0))


@pytest.fixture
def design():
    return Design(made_up_cases(80, 25, 20, 4))


def by_run(placings):
    return {placing.run: placing for placing in placings}


def constant(number, **fields):
    """Return a run of equal chains on 12 images and 12 pairs."""
    return [chain(*number, image=f"p{i:02}", pair=f"q{i:02}", **fields) for i in range(12)]


# The board


def test_clearly_different_runs_have_separate_ranks(times):
    runs = {"half": run_of(times), "whole": run_of(times * 2), "third": run_of(times / 3)}
    placings = board(runs, 20)
    assert [p.run for p in placings] == ["whole", "half", "third"]
    assert [p.rank for p in placings] == [1, 2, 3]
    assert [p.rank_set for p in placings] == [(1, 1), (2, 2), (3, 3)]
    assert [p.p_first for p in placings] == [1, 0, 0]


def test_equal_runs_share_the_first_rank_and_the_next_rank_is_three(times):
    runs = {"b": run_of(times), "a": run_of(times), "poor": run_of(times / 3)}
    placings = board(runs, 20)
    assert [(p.run, p.rank, p.p_first) for p in placings] == [
        ("a", 1, 0.5),
        ("b", 1, 0.5),
        ("poor", 3, 0.0),
    ]


def test_the_order_is_by_usable_trips_whatever_the_half_life_says(times):
    """In one run nine of ten cases last 11 trips; in the other six last forever."""
    steady = [halving(11 if i % 10 else 1, image=f"p{i:02}", pair=f"q{i % 15}") for i in range(30)]
    torn = [
        chain(*[1.0 if i % 10 > 3 else 0.0] * 20, image=f"p{i:02}", pair=f"q{i % 15}")
        for i in range(30)
    ]
    placings = board({"steady": steady, "torn": torn}, 20)
    assert [p.run for p in placings] == ["torn", "steady"]
    assert placings[0].summary.half_life is None
    assert placings[0].summary.usable_trips > placings[1].summary.usable_trips


def test_a_run_that_lacks_a_case_is_listed_last_and_not_ranked(times):
    best = run_of(times * 3)[:-1]
    placings = board({"best": best, "slow": run_of(times), "fast": run_of(times / 3)}, 20)
    assert [(p.run, p.complete, p.rank) for p in placings] == [
        ("slow", True, 1),
        ("fast", True, 2),
        ("best", False, None),
    ]
    assert placings[-1].p_first is placings[-1].rank_set is None
    assert placings[-1].bounds.usable_trips.low < placings[-1].summary.usable_trips


def test_the_suite_decides_what_is_complete_not_the_runs(times):
    run = run_of(times)
    asked = {c.key for c in run}
    assert board({"run": run}, 20, keys=asked)[0].rank == 1
    assert board({"run": run}, 20, keys=asked | {("more", "hat", 0)})[0].rank is None
    fewer = sorted(asked)[:60]
    (placing,) = board({"run": run}, 20, keys=fewer)
    assert placing.summary == summarise([c for c in run if c.key in fewer], 20)


def test_a_case_lost_before_its_first_trip_is_missing_and_a_later_loss_is_censored(times):
    run = run_of(times)
    place = {
        name: getattr(run[0], name) for name in ("image", "pair", "category", "kind", "origin")
    }
    unplayed = [chain(outcome="lost", **place), *run[1:]]
    begun = [chain(0.9, outcome="lost", **place), *run[1:]]
    placings = by_run(board({"run": run, "unplayed": unplayed, "begun": begun}, 20))
    assert [placings[n].complete for n in ("run", "unplayed", "begun")] == [True, False, True]


def test_the_reference_editors_have_the_ends_of_the_scale():
    oracle = constant([1.0] * 20, change_seen=(True,) * 20)
    no_op = constant([1.0] * 20, change_seen=(False,) * 20)
    card = constant([0.0] * 20, outcome="completed", change_seen=(False,) * 20)
    placings = board({"oracle": oracle, "no-op": no_op, "card": card}, 20)
    assert [(p.run, p.summary.usable_trips, p.rank) for p in placings] == [
        ("oracle", 20, 1),
        ("card", 0, 2),
        ("no-op", 0, 2),
    ]
    assert placings[0].bounds.half_life == Interval(None, None)
    assert placings[1].bounds.half_life == Interval(0, 0)
    assert [p.p_first for p in placings] == [1, 0, 0]


def test_too_few_images_separate_no_runs_and_give_no_interval():
    good, bad = constant([1.0] * 20), constant([], outcome="failed")
    few = board({"good": good[:11], "bad": bad[:11]}, 20)
    assert [(p.run, p.rank, p.rank_set, p.p_first) for p in few] == [
        ("good", 1, (1, 2), None),
        ("bad", 1, (1, 2), None),
    ]
    assert few[0].bounds == Bounds()
    enough = board({"good": good, "bad": bad}, 20)
    assert [p.rank for p in enough] == [1, 2]


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_a_board_is_valid_json_and_reproducible(times, loss):
    runs = {f"run-{i}": run_of(times * (1 + i / 5), loss=loss, seed=i) for i in range(4)}
    placings = board(runs, 20)
    text = json.dumps([asdict(p) for p in placings], allow_nan=False)
    again = board(dict(reversed(runs.items())), 20)
    assert json.dumps([asdict(p) for p in again]) == text
    for placing in placings:
        assert placing.bounds.usable_trips.low <= placing.summary.usable_trips
        assert placing.bounds.usable_trips.high >= placing.summary.usable_trips
        assert len(placing.bounds.curve) == 21
    if not loss:
        assert sum(p.p_first for p in placings) == pytest.approx(1)


def test_boards_without_chains_are_empty_or_unranked():
    assert board({}, 20) == []
    lost = [chain(outcome="lost", image=f"p{i}") for i in range(12)]
    (placing,) = board({"lost": lost}, 20)
    assert (placing.rank, placing.complete, placing.bounds) == (None, False, Bounds())
    asked = {c.key for c in lost}
    assert board({"lost": lost}, 20, keys=asked)[0].rank is None


# Intervals


def test_the_half_lifes_interval_is_where_the_survival_band_contains_one_half(times):
    """Find the interval by evaluating the band in the middle of every step."""
    run = run_of(times, loss=0.1)
    values = case_values(run, 20)
    result = Bounds.of(values)
    t = t_quantile(0.975, values.design.freedom)
    steps = np.append(values.ends, 20.0)
    holds = []
    for start, end in itertools.pairwise(steps):
        share = values.survival_at((start + end) / 2)
        column = values.survival[:, [np.searchsorted(values.ends, start)]]
        reach = t * values.design.standard_errors(column, 1)[0]
        if abs(share - 0.5) <= reach:
            holds.append((start, end))
    assert result.half_life == Interval(holds[0][0], holds[-1][1])
    assert result.half_life.low < summarise(run, 20).half_life < result.half_life.high


@given(chains_of_a_run())
def test_the_survival_of_the_cases_is_that_of_the_run(chains):
    summary, values = summary_and_values(chains, 6)
    if summary.usable_trips is None:
        return
    assert values.survival_at(np.arange(7.0)) == pytest.approx(np.array(summary.survival))
    assert values.design.mean(values.usable) == pytest.approx(summary.usable_trips)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.0, 0.3]), st.sampled_from([1.0, 4.0, 12.0, 60.0]))
def test_the_half_lifes_interval_contains_the_half_life(seed, loss, median):
    random = np.random.default_rng(seed)
    run = run_of(spread_times(12, random, median=median), loss=loss, seed=seed)
    result = Bounds.of(case_values(run, 20)).half_life
    low, value, high = (
        np.inf if end is None else end
        for end in (result.low, summarise(run, 20).half_life, result.high)
    )
    assert low <= value <= high


def test_a_model_that_never_failed_has_an_interval_too():
    """Fourteen lasting cases leave the fifteenth uncertain, so no interval is a point."""
    result = Bounds.of(case_values(constant([1.0] * 20), 20))
    assert result.usable_trips.high == 20
    assert 14 < result.usable_trips.low < 19
    assert result.auc.low < 1
    never = Bounds.of(case_values(constant([], outcome="refused"), 20))
    assert 1 < never.usable_trips.high < 6


def test_intervals_stay_within_what_is_possible():
    nearly = [
        chain(*[1.0 if i else 0.4] * 20, image=f"p{i:02}", pair=f"q{i:02}") for i in range(12)
    ]
    result = Bounds.of(case_values(nearly, 20))
    assert result.usable_trips.high == 20
    assert result.half_life.high is None
    assert result.auc.high == 1
    assert result.curve[0] == Interval(1, 1)


# Ranks


def test_ranks_go_down_group_by_group(design):
    """The first and the second cannot be separated, nor the third and the fourth."""
    random = np.random.default_rng(1)
    middles = np.array([10.0, 9.95, 5.0, 4.95])
    ranks = rank_board(design, middles + random.normal(0, 0.5, (len(design.cases), 4)), 20)
    assert ranks.shared == (1, 1, 3, 3)
    assert ranks.sets == ((1, 2), (1, 2), (3, 4), (3, 4))
    assert ranks.tiers == ("A", "A", "B", "B")


def test_no_rank_is_better_than_that_of_a_run_with_more_usable_trips(design):
    """The second is significantly worse than the first, the noisy third is not but shares its rank."""
    random = np.random.default_rng(1)
    first = random.normal(10, 3, len(design.cases))
    noise = random.normal(0, 12, len(design.cases))
    noise -= design.mean(noise)
    table = np.column_stack([first, first - 3, first - 3.1 + noise])
    ranks = rank_board(design, table, 20)
    assert ranks.sets == ((1, 2), (2, 3), (1, 3))
    assert ranks.shared == (1, 2, 2)
    assert ranks.better.tolist() == [[False, True, False], [False] * 3, [False] * 3]
    assert ranks.tiers == ("A", "A", "A")


def test_exactly_equal_runs_have_one_rank_and_tier_whatever_their_order_and_errors(design):
    """One of two equal runs is significantly worse than the first; the noisy one is not."""
    random = np.random.default_rng(1)
    first = random.normal(10, 3, len(design.cases))
    noise = random.normal(0, 4, len(design.cases))
    noise -= design.mean(noise)
    table = np.column_stack([first, first - 0.5, first - 0.5 + noise])
    for order in ([0, 1, 2], [0, 2, 1], [2, 1, 0]):
        ranks = rank_board(design, table[:, order], 0)
        assert {ranks.sets[order.index(1)], ranks.sets[order.index(2)]} == {(2, 3), (1, 3)}
        assert [ranks.shared[order.index(run)] for run in range(3)] == [1, 2, 2]
        assert set(ranks.tiers) == {"A"}


def test_tiers_continue_beyond_the_alphabet(design):
    """Each of thirty runs is significantly worse than the run before it."""
    usable = np.arange(30.0, 0, -1)
    ranks = rank_board(design, np.tile(usable, (len(design.cases), 1)), 0, draws=200)
    assert ranks.tiers[:3] == ("A", "B", "C")
    assert ranks.tiers[25:28] == ("Z", "AA", "AB")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8))
def test_ranks_follow_the_order_and_are_in_their_sets(seed, runs):
    random = np.random.default_rng(seed)
    design = Design(made_up_cases(30, 12, 14, 3, seed))
    spread = random.uniform(0.01, 4, runs)
    table = random.uniform(0, 10, runs) + random.normal(0, 1, (30, runs)) * spread
    ranks = rank_board(design, table, 20, draws=500)
    order = np.argsort(-design.mean(table))
    shared = np.array(ranks.shared)[order]
    assert (np.diff(shared) >= 0).all()
    assert shared[0] == 1
    for position, (rank, run) in enumerate(zip(shared, order, strict=True), 1):
        low, high = ranks.sets[run]
        assert low <= rank <= position <= high
    assert sum(ranks.p_first) == pytest.approx(1)


def test_the_order_of_runs_changes_nothing(design):
    random = np.random.default_rng(3)
    table = random.normal(10, 2, (len(design.cases), 6)) + random.normal(0, 0.5, 6)
    order = random.permutation(6)
    one, two = rank_board(design, table, 20), rank_board(design, table[:, order], 20)
    assert [one.sets[n] for n in order] == list(two.sets)
    assert [one.p_first[n] for n in order] == pytest.approx(list(two.p_first), abs=0.02)


def test_given_means_decide_the_order(design):
    """In a part of a suite with lost chains, the area of that part's curve is shown."""
    table = np.random.default_rng(4).normal(10, 1, (len(design.cases), 2))
    assert rank_board(design, table, 20, [3.0, 9.0]).shared == (2, 1)
    assert rank_board(design, table, 20, [9.0, 3.0]).shared == (1, 2)


def test_a_scope_leaves_out_cases_that_the_metric_does_not_apply_to(design):
    random = np.random.default_rng(7)
    stored = random.normal([5.0, 9.0], 1, (len(design.cases), 2))
    faces = np.array([case.kind == "face" for case in design.cases])
    stored[~faces] = np.nan
    assert rank_scope(design.cases, stored, 20, "all").sets == (
        rank_scope(design.cases, stored, 20, "kind:face").sets
    )
    assert rank_scope(design.cases, stored, 20, "kind:scene").shared == (1, 1)
    stored[np.flatnonzero(faces)[0], 0] = np.nan
    with pytest.raises(ValueError, match="lacks a case"):
        rank_scope(design.cases, stored, 20, "all")


def test_rounding_does_not_separate_nearly_equal_runs(design):
    first = np.random.default_rng(8).normal(10, 3, len(design.cases))
    again = (first * 3 + 1 - 1) / 3
    ranks = rank_board(design, np.column_stack([first, again]), 20)
    assert ranks.shared == (1, 1)
    assert ranks.p_first == pytest.approx((0.5, 0.5), abs=0.02)


def test_boards_of_one_run_and_of_no_run(design):
    table = np.random.default_rng(5).normal(10, 1, (len(design.cases), 1))
    alone = rank_board(design, table, 20)
    assert (alone.shared, alone.sets, alone.p_first) == ((1,), ((1, 1),), (1.0,))
    assert rank_board(design, table[:, :0], 20).shared == ()


def test_the_critical_value_of_two_runs_is_students_t(design):
    """A single difference needs no correction, so the draws must give Student's t."""
    random = np.random.default_rng(6)
    apart = random.normal(0, 1, len(design.cases))
    apart -= design.mean(apart)
    reach = t_quantile(0.975, design.freedom)
    for factor, expected in ((0.97, False), (1.03, True)):
        gap = 0.0
        for _ in range(50):  # the error depends slightly on the two means
            table = np.column_stack([10 + apart + gap, np.full(len(apart), 10.0)])
            gap = factor * reach * design.difference_errors(table[:, :1], table[:, 1:], 20)[0]
        assert rank_board(design, table, 20, draws=100_000).better[0, 1] == expected


# Significant differences of all pairs at once


def test_the_significant_difference_is_the_quantile_of_the_largest_of_all_pairs():
    random = np.random.default_rng(3)
    shares = random.normal(0, 1, (12, 9)) * np.exp(random.normal(0, 1, 9))
    shares[:, 2] = shares[:, 1]  # two runs that never differ
    errors = np.sqrt(np.square(shares[:, :, None] - shares[:, None]).sum(axis=0))
    drawn = random.normal(0, 1, (700, 12)) @ shares
    scale = np.divide(1, errors, out=np.zeros_like(errors), where=errors > 1e-9)
    largest = [(np.abs(row[:, None] - row) * scale).max() for row in drawn]
    assert significance_factor(drawn, errors, 0.95) == np.quantile(largest, 0.95)


@pytest.mark.parametrize("runs", [1, 48])
def test_runs_that_never_differ_need_no_factor(runs):
    drawn = np.repeat(np.random.default_rng(1).normal(0, 1, (50, 1)), runs, axis=1)
    assert significance_factor(drawn, np.zeros((runs, runs)), 0.95) == 0
