from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from evaluation.statistics.half_life import summarise
from evaluation.statistics.ranking import Interval, Ranks, board, interval
from evaluation.statistics.resampling import Replicates
from evaluation.testing.chains import chain, run_of, spread_times

PICTURES = 30


@pytest.fixture
def times():
    return spread_times(PICTURES, np.random.default_rng(0))


def by_run(placings):
    return {placing.run: placing for placing in placings}


def test_a_clear_order_is_found_with_ranks_of_their_own(times):
    runs = {"half": run_of(times / 2), "whole": run_of(times), "third": run_of(times / 3)}
    placings = board(runs, 20)
    assert [p.run for p in placings] == ["whole", "half", "third"]
    assert [p.rank for p in placings] == [1, 2, 3]
    assert [p.rank_interval for p in placings] == [(1, 1), (2, 2), (3, 3)]
    assert [p.p_first for p in placings] == [1, 0, 0]


def test_twins_share_the_rank_and_the_first_place_and_the_next_rank_is_three(times):
    runs = {"b": run_of(times), "a": run_of(times), "poor": run_of(times / 3)}
    placings = board(runs, 20)
    assert [(p.run, p.rank, p.p_first) for p in placings] == [
        ("a", 1, 0.5),
        ("b", 1, 0.5),
        ("poor", 3, 0.0),
    ]


def test_an_unreached_half_life_sorts_first_and_ties_go_by_usable_trips():
    perfect = [chain(*[1.0] * 20, picture=f"p{i}") for i in range(8)]
    nearly = [chain(*[0.9] * (20 - i), *[0.1] * i, picture=f"p{i}") for i in range(8)]
    few = [chain(*[0.9] * 19, 0.1, picture=f"p{i}") for i in range(8)]
    dropping = [*nearly[:3], *(chain(*[0.9] * 20, picture=f"p{i}") for i in range(3, 8))]
    placings = board({"few": few, "dropping": dropping, "perfect": perfect}, 20)
    assert [p.run for p in placings] == ["perfect", "dropping", "few"]
    assert [p.summary.half_life is None for p in placings] == [True, True, False]
    assert by_run(placings)["perfect"].bounds.half_life == Interval(None, None)
    mixed = by_run(placings)["dropping"].bounds.half_life
    assert mixed.low is not None
    assert mixed.high is None


def test_a_run_that_lacks_a_case_is_listed_last_and_not_ranked(times):
    best = run_of(times * 3)[:-1]
    placings = board({"best": best, "slow": run_of(times), "fast": run_of(times / 3)}, 20)
    assert [(p.run, p.complete, p.rank) for p in placings] == [
        ("slow", True, 1),
        ("fast", True, 2),
        ("best", False, None),
    ]
    assert placings[-1].p_first is placings[-1].rank_interval is None
    assert placings[-1].bounds.usable_trips.low < placings[-1].summary.usable_trips


def test_the_suite_decides_what_is_complete_not_the_runs(times):
    run = run_of(times)
    asked = {c.key for c in run}
    assert board({"run": run}, 20, keys=asked)[0].rank == 1
    assert board({"run": run}, 20, keys=asked | {("more", "hat", 0)})[0].rank is None
    fewer = sorted(asked)[:60]
    (placing,) = board({"run": run}, 20, keys=fewer)
    assert placing.summary == summarise([c for c in run if c.key in fewer], 20)


def test_a_case_lost_before_its_first_trip_is_lacking_a_later_loss_is_censored(times):
    run = run_of(times)
    place = {name: getattr(run[0], name) for name in ("picture", "pair", "category", "kind")}
    unplayed = [chain(outcome="lost", **place), *run[1:]]
    begun = [chain(0.9, outcome="lost", **place), *run[1:]]
    placings = by_run(board({"run": run, "unplayed": unplayed, "begun": begun}, 20))
    assert [placings[n].complete for n in ("run", "unplayed", "begun")] == [True, False, True]


def test_five_pictures_separate_nobody_and_have_no_interval():
    good = [chain(*[1.0] * 20, picture=f"p{i}") for i in range(6)]
    bad = [chain(outcome="failed", picture=f"p{i}") for i in range(6)]
    few = board({"good": good[:5], "bad": bad[:5]}, 20)
    assert [(p.run, p.rank, p.rank_interval) for p in few] == [
        ("good", 1, (1, 2)),
        ("bad", 1, (1, 2)),
    ]
    assert few[0].bounds.half_life is few[0].bounds.curve is None
    enough = board({"good": good, "bad": bad}, 20)
    assert [p.rank for p in enough] == [1, 2]


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_a_board_is_ready_for_json_and_the_same_again(times, loss):
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


def test_boards_of_nothing_are_empty_or_unranked():
    assert board({}, 20) == []
    lost = [chain(outcome="lost", picture=f"p{i}") for i in range(8)]
    (placing,) = board({"lost": lost}, 20)
    assert (placing.rank, placing.complete, placing.bounds.half_life) == (None, False, None)
    asked = {c.key for c in lost}
    assert board({"lost": lost}, 20, keys=asked)[0].rank is None


def test_ranks_go_down_group_by_group():
    """The best and the second cannot be told apart, nor the third and the fourth."""
    noise = np.linspace(-0.5, 0.5, 2000)
    middles = [10.0, 9.9, 5.0, 4.9]
    ranks = Ranks([made_up(m + noise * (-1) ** i) for i, m in enumerate(middles)])
    assert ranks.shared == [1, 1, 3, 3]
    assert ranks.intervals == [(1, 2), (1, 2), (3, 4), (3, 4)]


def test_a_noisy_run_shares_the_first_rank_even_below_a_separated_one():
    """Each is held against the best, not against its neighbour."""
    steady, noisy = np.zeros(2000), np.linspace(-4, 4, 2000)
    ranks = Ranks([made_up(10 + steady), made_up(9 + steady), made_up(8.9 + noisy)])
    assert ranks.shared == [1, 3, 1]


def test_intervals_do_not_interpolate_towards_infinity():
    values = np.concatenate([np.full(1900, 5.0), np.full(100, np.inf)])
    assert interval(values) == Interval(5.0, None)
    assert interval(np.full(10, np.nan)) is None


def made_up(half_life):
    return Replicates(half_life, half_life, half_life, half_life[:, None])
