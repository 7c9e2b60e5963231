"""Races: rounds that are fair to every category, looks that share what they may err by."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from evaluation.analysis.covariance import Design
from evaluation.analysis.events import Case
from evaluation.analysis.racing import ALPHA, Race, RaceError, look, rounds_of, spending
from evaluation.testing.simulations.races import board, simulate

TRIPS = 20


def _pair(n):
    return (7 * n + n // 20) % 20


#: 40 cases of 20 pictures and 20 pairs in 4 categories.
CASES = [
    Case(f"picture-{n % 20}", f"pair-{_pair(n)}", f"category-{_pair(n) % 4}", "scene")
    for n in range(40)
]


@pytest.mark.parametrize("rounds", [2, 3, 8, 12])
def test_the_looks_spend_all_that_they_may_err_by_and_no_more(rounds):
    parts = spending(rounds)
    assert len(parts) == rounds - 1
    assert sum(parts) == pytest.approx(ALPHA)
    assert parts == sorted(parts)  # little at first


def test_every_round_has_its_share_of_each_category():
    cases = [(f"{n}", f"category-{n % 5}") for n in range(61)]
    rounds = rounds_of(cases, 4, "secret")
    assert rounds.keys() == {slug for slug, _ in cases}
    for category in {category for _, category in cases}:
        own = Counter(rounds[slug] for slug, of in cases if of == category)
        assert max(own.values()) - min(own.values()) <= 1
    sizes = Counter(rounds.values())
    assert max(sizes.values()) - min(sizes.values()) <= 1
    assert rounds == rounds_of(cases, 4, "secret") != rounds_of(cases, 4, "another")


@pytest.mark.parametrize(
    ("race", "ranks", "said"),
    [
        (Race("top", 3), (1, 3), "in the top 3"),
        (Race("top", 3), (4, 9), "not in the top 3"),
        (Race("top", 3), (3, 4), ""),
        (Race("width", 2), (5, 6), "rank 5 to 6"),
        (Race("width", 1), (5, 5), "rank 5"),
        (Race("width", 2), (5, 7), ""),
    ],
)
def test_a_rank_set_settles_what_was_asked_or_not(race, ranks, said):
    assert race.settled(*ranks) == said


@pytest.mark.parametrize("wrong", [("best", 3, 8), ("top", 0, 8), ("top", 3, 1), ("width", 3, 99)])
def test_a_race_that_cannot_be_run_says_what_is_wrong(wrong):
    with pytest.raises(RaceError, match="it should be"):
        Race(*wrong)


def test_a_race_is_told_and_read_back():
    race = Race("top", 5, 6)
    assert Race.from_dict(race.to_dict()) == race


def test_a_model_that_does_nothing_is_out_of_the_race_early_and_compared_on_its_own_cases():
    random = np.random.default_rng(1)
    others = random.uniform(8, 18, (40, 6))
    nothing = np.zeros((40, 1))
    nothing[30:] = np.nan  # not played yet
    found = look(Race("top", 3, 4), 3, CASES, np.hstack([others, nothing]), TRIPS)
    assert (found.settled, found.cases, found.runs) == ("not in the top 3", 30, 6)
    assert (found.low, found.high) == (7, 7)
    assert found.usable_trips == 0


def test_too_few_cases_or_nobody_beside_it_settle_nothing():
    few = np.full((40, 2), np.nan)
    few[:4] = 1.0, 19.0
    assert look(Race("top", 1, 2), 1, CASES, few, TRIPS).settled == ""
    assert look(Race("top", 1, 2), 1, CASES, np.zeros((40, 1)), TRIPS).settled == ""


def test_the_first_of_many_looks_settles_nothing():
    apart = np.hstack([np.full((40, 1), 19.0), np.full((40, 1), 1.0)])
    found = look(Race("top", 1, 12), 1, CASES, apart, TRIPS)
    assert (found.alpha, found.settled, found.interval) == (0.0, "", None)


def test_simulated_races_err_no_more_often_than_they_may():
    """The full table is `python -m evaluation.benchmarks.racing`."""
    others = board(TRIPS, models=4)
    race = Race("top", 2, 4)
    close = simulate(Design(CASES), TRIPS, race, [*others, others[1] * 0.999], 25)
    assert close.wrong <= ALPHA + 0.03  # one of 25
    far = simulate(Design(CASES), TRIPS, race, [*others, others[1] * 0.1], 10)
    assert far.settled == 1
    assert far.wrong == 0
    assert far.played < 0.8
