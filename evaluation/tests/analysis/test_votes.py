"""Who agrees with people, when people stop using a picture, and how long it lasts for them."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.analysis.events import ChainResult
from evaluation.analysis.half_life import half_life
from evaluation.analysis.votes import (
    Asked,
    Ballots,
    among_people,
    half_say_no,
    human_life,
    others_agree,
    with_people,
    yes_by_retention,
)
from evaluation.testing.chains import made_up_cases

TRIPS = 10


def ballots(voter, question, answer):
    voter, question = np.array(voter), np.array(question)
    nothing = np.full(len(voter), -1)
    answer = np.array(answer, dtype=float)
    return Ballots(voter, question, question, nothing, nothing, answer, answer)


def test_agreement_counts_choices_halves_ties_and_leaves_out_the_silent():
    own = ballots([0, 1, 2, 3, 0], [0, 0, 1, 1, 2], [1, 1, -1, 0, 1])
    says = np.array([1.0, 1, 1, 1, 0])
    found = with_people(says, own, np.ones(5))
    assert found.everywhere.votes == 4  # "cannot say" chose nothing
    assert found.everywhere.share == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert found.shared.votes == 2
    nothing = with_people(np.full(5, np.nan), own, np.ones(5))
    assert nothing.everywhere is nothing.shared is None


def test_people_agree_with_other_people_never_with_themselves():
    own = ballots([0, 0, 1, 2, 2], [0, 0, 0, 1, 1], [1, -1, 1, 1, 1])
    found = others_agree(own, np.ones(5))
    assert found[:3].tolist() == [1, 0, 0.5]
    assert np.isnan(found[3:]).all()
    assert among_people(own, np.ones(5)).share == pytest.approx(0.5)


def test_a_metric_as_good_as_a_person_reaches_the_ceiling_and_none_lies_above_by_much():
    random = np.random.default_rng(1)
    questions, voters = 60, 12
    truth = random.choice((1.0, -1.0), questions)
    voter, question = (grid.ravel() for grid in np.meshgrid(range(voters), range(questions)))
    answer = truth[question] * np.where(random.random(len(voter)) < 0.8, 1, -1)
    own = ballots(voter, question, answer)
    ceiling = among_people(own, np.ones(len(voter)))
    assert ceiling.low < 0.8**2 + 0.2**2 < ceiling.high
    like_a_person = truth * np.where(np.arange(questions) % 5, 1, -1)
    metric = with_people(like_a_person[question], own, np.ones(len(voter))).everywhere
    assert metric.low < ceiling.share < metric.high
    blind = with_people(random.choice((1.0, -1.0), questions)[question], own, np.ones(len(voter)))
    assert blind.everywhere.high < ceiling.low


def usable_votes(level, votes=400, slope=12.0, seed=0):
    random = np.random.default_rng(seed)
    kept = random.uniform(0, 1, votes)
    yes = random.random(votes) < 1 / (1 + np.exp(-slope * (kept - level)))
    return kept, ballots(random.integers(0, 20, votes), random.integers(0, 30, votes), yes)


@pytest.mark.parametrize("level", [0.3, 0.6])
def test_the_level_at_which_half_say_no_is_found_within_its_interval(level):
    kept, own = usable_votes(level)
    found = half_say_no(kept, own, np.ones(len(own)), draws=100)
    assert found.low < level < found.high
    assert found.high - found.low < 0.2
    bins = yes_by_retention(kept, own, np.ones(len(own)))
    assert [one["votes"] for one in bins] == [40] * 10
    assert bins[0]["yes"] < 0.5 < bins[-1]["yes"]


def test_a_metric_that_does_not_matter_has_no_level():
    kept, own = usable_votes(0.5)
    assert half_say_no(1 - kept, own, np.ones(len(own)), draws=20) is None
    few = own.only(np.arange(len(own)) < 20)
    assert half_say_no(kept[:20], few, np.ones(20), draws=20) is None
    all_yes = ballots(own.voter, own.question, np.ones(len(own)))
    assert half_say_no(kept, all_yes, np.ones(len(own)), draws=20) is None


def asked_of(life, number=40, voters=8, seed=0, **fields):
    """Chains that people would use for `life` trips, give or take; asked after 1, 3, 5, 10."""
    random = np.random.default_rng(seed)
    found = []
    for case in made_up_cases(number, 12, 14, 3):
        own = life * random.uniform(0.6, 1.4)
        trip = np.tile([1, 3, 5, 10], 3)
        voter = np.repeat(random.choice(voters, 3, replace=False), 4)
        chain = ChainResult(*case, 0, retention=(0.9,) * TRIPS, **fields)
        found.append(Asked(chain, trip, voter, (trip < own).astype(float)))
    return found


def test_human_usable_trips_are_those_that_people_said():
    weights = dict.fromkeys(range(8), 1.0)
    found = human_life(asked_of(4.0), weights, TRIPS, draws=20)
    assert found.enough
    assert found.has_interval
    assert found.usable_trips_low < 4 < found.usable_trips_high
    assert found.half_life == half_life(found.usable_trips, TRIPS)
    longer = human_life(asked_of(30.0), weights, TRIPS, draws=20)
    assert longer.usable_trips == TRIPS
    assert longer.half_life is None


def test_who_is_not_believed_does_not_count():
    asked = asked_of(4.0)
    assert human_life(asked, {}, TRIPS) is None
    halves = human_life(asked, dict.fromkeys(range(4), 1.0), TRIPS, draws=5)
    assert halves.voters == 4
    assert not halves.enough


def test_a_model_that_makes_no_edit_keeps_its_pictures_for_no_trip():
    flags = (False,)
    found = human_life(asked_of(30.0, change_seen=flags), dict.fromkeys(range(8), 1.0), TRIPS)
    assert found.usable_trips == pytest.approx(0, abs=1e-9)
    assert found.half_life == pytest.approx(0, abs=1e-9)


def test_after_the_last_question_a_chain_is_censored_not_ended():
    weights = dict.fromkeys(range(8), 1.0)
    short = [
        Asked(one.chain, one.trip[one.trip < 5], one.voter[one.trip < 5], one.yes[one.trip < 5])
        for one in asked_of(30.0)
    ]
    assert human_life(short, weights, TRIPS, draws=5).usable_trips == TRIPS
