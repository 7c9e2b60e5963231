"""Votes: simulated voters of known skill and bias, agreement, and usable trips by votes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from evaluation.analysis import votes
from evaluation.analysis.events import ChainResult
from evaluation.analysis.votes import (
    PRIOR,
    Ballots,
    Checks,
    JudgedChain,
    agreement_among_people,
    agreement_with_others,
    agreement_with_people,
    enough,
    fit,
    strengths,
    unusable_threshold,
    usable_trips_by_votes,
    weigh_voters,
    weigh_voters_with_order,
    weighted_share,
    win_shares,
    yes_by_retention,
)
from evaluation.testing.chains import made_up_cases
from evaluation.tests.analysis.crowds import CLICKER, COLOUR, HONEST, LEFT, crowd

PLANTED = np.array([1.5, 0.8, 0.2, -0.2, -0.8, -1.5])
MIXED = {HONEST: 30, CLICKER: 6, LEFT: 4, COLOUR: 4}


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(votes, "DRAWS", 120)
    monkeypatch.setattr(votes, "USABLE_TRIPS_DRAWS", 20)


def estimated(made):
    found = weigh_voters_with_order(made.ballots, made.checks, len(made.planted))
    weights = {voter: result.weight for voter, result in found.items()}
    return strengths(made.ballots, weights, len(made.planted)), found


def pairs(rows):
    """Return ballots of (voter, first, second, answer), each on its own case."""
    voter, first, second, answer = np.array(rows).T
    places = np.arange(len(rows))
    return Ballots(voter, places, places, first, second, answer.astype(float), answer.astype(float))


def test_intervals_cover_planted_strengths_although_a_third_of_voters_are_careless():
    inside = []
    for seed in range(4):
        found, _ = estimated(crowd(MIXED, PLANTED, seed=seed))
        inside += [
            one.strength_low <= planted <= one.strength_high
            for one, planted in zip(found, PLANTED, strict=True)
        ]
        # Neighbours may swap, but not models whose intervals are separate.
        for one, other in itertools.combinations(found, 2):
            assert one.strength_high > other.strength_low
        assert all(one.share_low < one.share < one.share_high for one in found)
        assert all(enough(one.votes, one.voters) for one in found)
    assert sum(inside) >= 0.9 * len(inside)


def test_without_voter_weights_strengths_shrink_and_miss():
    made = crowd(MIXED, PLANTED, seed=1)
    as_cast = fit(made.ballots, np.ones(len(made.ballots)), 6)
    weighed, _ = estimated(made)
    assert abs(as_cast[0] - PLANTED[0]) > abs(weighed[0].strength - PLANTED[0])


def test_careless_voters_lose_weight_and_honest_voters_do_not():
    made = crowd(MIXED, PLANTED, seed=2)
    _, found = estimated(made)
    for kind in (CLICKER, LEFT):
        assert all(found[voter].weight < 0.5 for voter in made.of(kind)), kind
        assert all(found[voter].reasons for voter in made.of(kind))
    weights = [found[voter].weight for voter in made.of(HONEST)]
    assert np.mean(weights) > 0.9
    assert min(weights) > 0.5
    assert np.mean([found[voter].weight for voter in made.of(COLOUR)]) < np.mean(weights)


def test_a_crowd_of_random_clickers_prefers_no_model():
    found, _ = estimated(crowd({CLICKER: 20}, PLANTED, seed=3))
    assert found is None or all(one.share_low <= 0.5 <= one.share_high for one in found)


def test_equal_models_are_rarely_separated():
    apart = 0
    for seed in range(6):
        found, _ = estimated(crowd({HONEST: 25}, np.zeros(5), seed=seed))
        apart += sum(not one.share_low <= 0.5 <= one.share_high for one in found)
    assert apart <= 2  # of 30


def test_strengths_are_those_of_bradley_and_terry():
    """With 75 of 100 votes the odds are 3, apart from the prior's half vote for each model."""
    ballots = pairs([(n % 10, 0, 1, 1 if n < 75 else -1) for n in range(100)])
    one, other = fit(ballots, np.ones(100), 2)
    odds = (75 + PRIOR / 2) / (25 + PRIOR / 2)
    assert one - other == pytest.approx(np.log(odds), abs=1e-6)
    assert win_shares(np.array([one, other]))[0] == pytest.approx((75 + PRIOR / 2) / (100 + PRIOR))


def test_a_tie_is_half_a_vote_for_either():
    ties = pairs([(n, 0, 1, 0) for n in range(40)])
    assert fit(ties, np.ones(40), 2) == pytest.approx([0, 0], abs=1e-9)
    mixed = pairs([(n, 0, 1, 0 if n < 20 else 1) for n in range(40)])
    halved = pairs([(n, 0, 1, 1 if n < 30 else -1) for n in range(40)])
    assert fit(mixed, np.ones(40), 2) == pytest.approx(fit(halved, np.ones(40), 2))


def test_a_model_that_won_every_vote_has_a_finite_strength():
    ballots = pairs([(n % 8, 0, 1, 1) for n in range(8)])
    assert np.isfinite(fit(ballots, np.ones(8), 3)).all()


def test_the_weight_by_checks_is_the_stated_rule():
    assert Checks().weight == pytest.approx((0.8 - 0.5) / 0.35)
    assert Checks(10, 10, 10, 10).weight == 1
    assert Checks(20, 8, 20, 8).weight == 0
    assert 0 < Checks(10, 5, 10, 5).weight < 0.3


def test_forty_votes_for_the_left_side_lower_the_weight_and_twelve_do_not():
    def always(times):
        return weigh_voters({0: Checks()}, pairs([(0, 0, 1, 1)] * times))[0]

    assert always(12).weight == always(5).weight
    assert always(40).weight == 0
    assert "chooses a side" in always(40).reasons


def test_the_interval_of_a_share_covers_other_voters_and_cases():
    values = np.array([1.0, 1, 0, 1, 1, 0, 1, 1])
    voter, case = np.arange(8) // 2, np.arange(8) % 4
    found = weighted_share(values, np.ones(8), voter, case)
    assert found.share == 0.75
    assert found.low < 0.75 < found.high <= 1
    alone = weighted_share(values, np.ones(8), np.zeros(8, dtype=int), case)
    assert alone.low is alone.high is None
    assert weighted_share(values, np.zeros(8), voter, case) is None


TRIPS = 10


def ballots(voter, question, answer):
    voter, question = np.array(voter), np.array(question)
    nothing = np.full(len(voter), -1)
    answer = np.array(answer, dtype=float)
    return Ballots(voter, question, question, nothing, nothing, answer, answer)


def test_agreement_halves_ties_and_leaves_out_missing_choices():
    own = ballots([0, 1, 2, 3, 0], [0, 0, 1, 1, 2], [1, 1, -1, 0, 1])
    says = np.array([1.0, 1, 1, 1, 0])
    everywhere, shared = agreement_with_people(says, own, np.ones(5))
    assert everywhere.votes == 4  # "cannot say" chose nothing
    assert everywhere.share == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert shared.votes == 2
    assert agreement_with_people(np.full(5, np.nan), own, np.ones(5)) == (None, None)


def test_people_agree_with_other_people_never_with_themselves():
    own = ballots([0, 0, 1, 2, 2], [0, 0, 0, 1, 1], [1, -1, 1, 1, 1])
    found = agreement_with_others(own, np.ones(5))
    assert found[:3].tolist() == [1, 0, 0.5]
    assert np.isnan(found[3:]).all()
    assert agreement_among_people(own, np.ones(5)).share == pytest.approx(0.5)


def test_a_metric_as_good_as_a_person_reaches_the_agreement_among_people():
    random = np.random.default_rng(1)
    questions, voters = 60, 12
    truth = random.choice((1.0, -1.0), questions)
    voter, question = (grid.ravel() for grid in np.meshgrid(range(voters), range(questions)))
    answer = truth[question] * np.where(random.random(len(voter)) < 0.8, 1, -1)
    own = ballots(voter, question, answer)
    ceiling = agreement_among_people(own, np.ones(len(voter)))
    assert ceiling.low < 0.8**2 + 0.2**2 < ceiling.high
    like_a_person = truth * np.where(np.arange(questions) % 5, 1, -1)
    metric, _ = agreement_with_people(like_a_person[question], own, np.ones(len(voter)))
    assert metric.low < ceiling.share < metric.high
    drawn = random.choice((1.0, -1.0), questions)
    blind, _ = agreement_with_people(drawn[question], own, np.ones(len(voter)))
    assert blind.high < ceiling.low


def usable_votes(threshold, number=400, slope=12.0):
    random = np.random.default_rng(0)
    kept = random.uniform(0, 1, number)
    yes = random.random(number) < 1 / (1 + np.exp(-slope * (kept - threshold)))
    return kept, ballots(random.integers(0, 20, number), random.integers(0, 30, number), yes)


@pytest.mark.parametrize("threshold", [0.3, 0.6])
def test_the_unusable_threshold_is_within_its_interval(threshold):
    kept, own = usable_votes(threshold)
    found = unusable_threshold(kept, own, np.ones(len(own)))
    assert found.low < threshold < found.high
    assert found.high - found.low < 0.2
    bins = yes_by_retention(kept, own, np.ones(len(own)))
    assert [one["votes"] for one in bins] == [40] * 10
    assert bins[0]["yes"] < 0.5 < bins[-1]["yes"]


def test_a_metric_unrelated_to_votes_has_no_threshold():
    kept, own = usable_votes(0.5)
    assert unusable_threshold(1 - kept, own, np.ones(len(own))) is None
    few = own.only(np.arange(len(own)) < 20)
    assert unusable_threshold(kept[:20], few, np.ones(20)) is None
    all_yes = ballots(own.voter, own.question, np.ones(len(own)))
    assert unusable_threshold(kept, all_yes, np.ones(len(own))) is None


def asked_of(life, number=40, voters=8, seed=0, **fields):
    """Return chains that people judge usable for about `life` trips, judged after 1, 3, 5 and 10."""
    random = np.random.default_rng(seed)
    found = []
    for case in made_up_cases(number, 12, 14, 3):
        own = life * random.uniform(0.6, 1.4)
        trip = np.tile([1, 3, 5, 10], 3)
        voter = np.repeat(random.choice(voters, 3, replace=False), 4)
        chain = ChainResult(*case, 0, retention=(0.9,) * TRIPS, **fields)
        found.append(JudgedChain(chain, trip, voter, (trip < own).astype(float)))
    return found


def test_usable_trips_by_votes_equal_those_that_people_voted_for():
    weights = dict.fromkeys(range(8), 1.0)
    found = usable_trips_by_votes(asked_of(4.0), weights, TRIPS)
    assert enough(found.usable_votes, found.usable_voters)
    assert found.has_interval
    assert found.usable_trips_low < 4 < found.usable_trips_high
    assert found.half_life_low <= found.half_life <= found.half_life_high
    assert found.half_life == pytest.approx(found.usable_trips, abs=1)
    longer = usable_trips_by_votes(asked_of(30.0), weights, TRIPS)
    assert longer.usable_trips == TRIPS
    assert longer.half_life is None


def test_voters_without_weight_do_not_count():
    asked = asked_of(4.0)
    assert usable_trips_by_votes(asked, {}, TRIPS) is None
    halves = usable_trips_by_votes(asked, dict.fromkeys(range(4), 1.0), TRIPS)
    assert halves.usable_voters == 4
    assert not enough(halves.usable_votes, halves.usable_voters)


def test_a_model_that_makes_no_edit_keeps_its_images_for_no_trip():
    flags = (False,)
    found = usable_trips_by_votes(
        asked_of(30.0, change_seen=flags), dict.fromkeys(range(8), 1.0), TRIPS
    )
    assert found.usable_trips == pytest.approx(0, abs=1e-9)
    assert found.half_life == pytest.approx(0, abs=1e-9)


def test_after_the_last_judged_trip_a_chain_is_censored():
    weights = dict.fromkeys(range(8), 1.0)
    short = [
        JudgedChain(
            one.chain, one.trip[one.trip < 5], one.voter[one.trip < 5], one.yes[one.trip < 5]
        )
        for one in asked_of(30.0)
    ]
    assert usable_trips_by_votes(short, weights, TRIPS).usable_trips == TRIPS
