"""Simulated voters of known skill and bias: planted strengths come back, clickers are found."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import evaluation
from evaluation.analysis.votes import (
    PRIOR,
    Ballots,
    Checks,
    beliefs,
    believed,
    by_checks,
    fit,
    strengths,
    weighted_share,
    won,
)
from evaluation.tests.analysis.crowds import CLICKER, COLOUR, HONEST, LEFT, crowd

PLANTED = np.array([1.5, 0.8, 0.2, -0.2, -0.8, -1.5])
MIXED = {HONEST: 30, CLICKER: 6, LEFT: 4, COLOUR: 4}


def estimated(made, draws=150):
    found = believed(made.ballots, made.checks, len(made.planted))
    weights = {voter: belief.weight for voter, belief in found.items()}
    return strengths(made.ballots, weights, len(made.planted), draws=draws), found


def pairs(rows):
    """Ballots of (voter, first, second, answer), each on a case of its own."""
    voter, first, second, answer = np.array(rows).T
    places = np.arange(len(rows))
    return Ballots(voter, places, places, first, second, answer.astype(float), answer.astype(float))


def test_planted_strengths_lie_in_their_intervals_in_spite_of_a_third_who_do_not_look():
    inside = []
    for seed in range(4):
        found, _ = estimated(crowd(MIXED, PLANTED, seed=seed))
        inside += [
            one.strength_low <= planted <= one.strength_high
            for one, planted in zip(found, PLANTED, strict=True)
        ]
        # Two neighbours may change places; none that the intervals part may.
        for one, other in itertools.combinations(found, 2):
            assert one.strength_high > other.strength_low
        assert all(one.low < one.share < one.high and one.enough for one in found)
    assert sum(inside) >= 0.9 * len(inside)


def test_without_the_rule_the_strengths_would_shrink_and_miss():
    made = crowd(MIXED, PLANTED, seed=1)
    as_cast = fit(made.ballots, np.ones(len(made.ballots)), 6)
    weighed, _ = estimated(made)
    assert abs(as_cast[0] - PLANTED[0]) > abs(weighed[0].strength - PLANTED[0])


def test_clickers_and_always_left_are_found_and_honest_voters_are_not_accused():
    made = crowd(MIXED, PLANTED, seed=2)
    _, found = estimated(made)
    for kind in (CLICKER, LEFT):
        assert all(found[voter].weight < 0.5 for voter in made.of(kind)), kind
        assert all(found[voter].reasons for voter in made.of(kind))
    weights = [found[voter].weight for voter in made.of(HONEST)]
    assert np.mean(weights) > 0.9
    assert min(weights) > 0.5
    assert np.mean([found[voter].weight for voter in made.of(COLOUR)]) < np.mean(weights)


def test_a_crowd_of_clickers_alone_prefers_nobody():
    found, _ = estimated(crowd({CLICKER: 20}, PLANTED, seed=3))
    assert found is None or all(one.low <= 0.5 <= one.high for one in found)


def test_equal_models_are_rarely_told_apart():
    apart = 0
    for seed in range(6):
        found, _ = estimated(crowd({HONEST: 25}, np.zeros(5), seed=seed), draws=120)
        apart += sum(not one.low <= 0.5 <= one.high for one in found)
    assert apart <= 2  # of 30


def test_strengths_are_those_of_bradley_and_terry():
    """Two models, 75 of 100 votes: the odds are 3, but for the prior's half vote each."""
    ballots = pairs([(n % 10, 0, 1, 1 if n < 75 else -1) for n in range(100)])
    one, other = fit(ballots, np.ones(100), 2)
    odds = (75 + PRIOR / 2) / (25 + PRIOR / 2)
    assert one - other == pytest.approx(np.log(odds), abs=1e-6)
    assert won(np.array([one, other]))[0] == pytest.approx((75 + PRIOR / 2) / (100 + PRIOR))


def test_a_tie_is_half_a_vote_for_either():
    ties = pairs([(n, 0, 1, 0) for n in range(40)])
    assert fit(ties, np.ones(40), 2) == pytest.approx([0, 0], abs=1e-9)
    mixed = pairs([(n, 0, 1, 0 if n < 20 else 1) for n in range(40)])
    halved = pairs([(n, 0, 1, 1 if n < 30 else -1) for n in range(40)])
    assert fit(mixed, np.ones(40), 2) == pytest.approx(fit(halved, np.ones(40), 2))


def test_who_has_won_every_vote_is_not_endlessly_strong():
    ballots = pairs([(n % 8, 0, 1, 1) for n in range(8)])
    assert np.isfinite(fit(ballots, np.ones(8), 3)).all()


def test_the_weight_by_checks_is_the_stated_rule():
    assert by_checks(Checks()) == pytest.approx((0.8 - 0.5) / 0.35)
    assert by_checks(Checks(10, 10, 10, 10)) == 1
    assert by_checks(Checks(20, 8, 20, 8)) == 0
    assert 0 < by_checks(Checks(10, 5, 10, 5)) < 0.3


def test_twelve_times_left_is_not_yet_chance_but_forty_times_is_a_habit():
    def always(times):
        return beliefs({0: Checks()}, pairs([(0, 0, 1, 1)] * times))[0]

    assert always(12).weight == always(5).weight
    assert always(40).weight == 0
    assert "chooses a side" in always(40).reasons


def test_a_share_says_how_far_it_may_be_off_for_other_voters_and_cases():
    values = np.array([1.0, 1, 0, 1, 1, 0, 1, 1])
    voter, case = np.arange(8) // 2, np.arange(8) % 4
    found = weighted_share(values, np.ones(8), voter, case)
    assert found.share == 0.75
    assert found.low < 0.75 < found.high <= 1
    alone = weighted_share(values, np.ones(8), np.zeros(8, dtype=int), case)
    assert alone.low is alone.high is None
    assert weighted_share(values, np.zeros(8), voter, case) is None


def test_what_pages_import_of_it_loads_neither_choix_nor_scipy():
    code = (
        "import sys\n"
        "from evaluation.analysis import votes\n"
        "print(sorted({name.split('.')[0] for name in sys.modules}))"
    )
    folder = Path(evaluation.__file__).parent.parent
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    assert "'numpy'" in run.stdout
    assert not {f"'{heavy}'" for heavy in ("choix", "scipy", "pandas") if heavy in run.stdout}
