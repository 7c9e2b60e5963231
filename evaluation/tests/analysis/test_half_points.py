"""Half points refitted to simulated votes with known half points."""

import numpy as np
import pytest

from evaluation.analysis.half_points import VotesWithTerms, refit
from evaluation.analysis.votes import Ballots
from evaluation.metrics.parts import PARTS

HALF_POINTS = {part.name: part.half for part in PARTS}
OBJECT, TEXT = list(HALF_POINTS).index("object"), list(HALF_POINTS).index("text")


def votes(truth, *, count=1500, voters=25, cases=40, seed=1, pairs=False):
    """Return votes of people whose half points are `truth` times today's, by part."""
    random = np.random.default_rng(seed)
    wrong = np.array([truth.get(part, 1.0) for part in HALF_POINTS])

    def images():
        # Mostly one or two parts are damaged, and few images show text.
        terms = np.exp(random.normal(-3, 1.2, (count, len(HALF_POINTS))))
        worst = random.integers(len(HALF_POINTS), size=(count, 2))
        for column in worst.T:
            terms[np.arange(count), column] = np.exp(random.normal(0, 1.3, count))
        terms[:, TEXT] = 0
        return terms

    first, second = images(), images() if pairs else None
    lead = -np.log((first / wrong**2).sum(axis=1))
    if pairs:
        lead = lead + np.log((second / wrong**2).sum(axis=1))
    yes = random.random(count) < 1 / (1 + np.exp(-2.5 * lead))
    answer = np.where(yes, 1.0, -1.0 if pairs else 0.0)
    number = np.arange(count)
    ballots = Ballots(
        number % voters, random.integers(cases, size=count), number, number, number, answer, answer
    )
    return VotesWithTerms(ballots, np.ones(count), first, second)


def proposed(result):
    return {
        point.part: point.proposed / point.today for point in result.half_points if point.proposed
    }


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wrong_half_point_is_recovered_and_the_others_stay(seed):
    truth = {"object": 2.5}
    single = votes(truth, seed=seed, count=4000)
    result = refit(HALF_POINTS, single, votes(truth, seed=seed + 10, pairs=True))
    found = proposed(result)
    assert found.pop("object") == pytest.approx(2.5, rel=0.2)
    assert all(0.75 < change < 1.35 for change in found.values()), found
    assert result.after.share > result.before.share
    assert result.gain_low > 0


def test_a_half_point_that_is_too_large_is_recovered_too():
    result = refit(HALF_POINTS, votes({"sharpness": 0.5}), votes({"sharpness": 0.5}, pairs=True))
    assert proposed(result)["sharpness"] == pytest.approx(0.5, rel=0.2)


def test_with_correct_half_points_the_proposal_gains_nothing():
    result = refit(HALF_POINTS, votes({}, seed=4), votes({}, seed=5, count=600, pairs=True))
    assert all(0.75 < change < 1.35 for change in proposed(result).values())
    assert result.gain_low <= 0.01
    assert abs(result.after.share - result.before.share) < 0.02


def test_a_part_informed_by_few_votes_keeps_its_half_point():
    result = refit(HALF_POINTS, votes({}), votes({}, pairs=True))
    text = result.half_points[TEXT]
    assert (text.part, text.today, text.proposed, text.votes) == ("text", 0.35, None, 0)
    assert result.half_points[OBJECT].votes > 100


@pytest.mark.parametrize("how", [{"count": 25}, {"voters": 4}, {"cases": 4}])
def test_without_enough_votes_voters_or_cases_nothing_is_proposed(how):
    nothing = votes({}, pairs=True).only(np.zeros(1500, bool))
    assert refit(HALF_POINTS, votes({"object": 2.0}, **how), nothing) is None


def test_random_answers_change_little_and_gain_nothing():
    random = np.random.default_rng(3)
    single = votes({})
    single.ballots.answer[:] = random.integers(2, size=len(single.ballots))
    result = refit(HALF_POINTS, single, votes({}, pairs=True).only(np.zeros(1500, bool)))
    assert result.gain_low < 0.05
    assert abs(result.after.share - 0.5) < 0.06


def test_votes_without_weight_count_for_nothing():
    good, bad = votes({}, seed=6), votes({"object": 4.0}, seed=7, pairs=True)
    silent = VotesWithTerms(bad.ballots, np.zeros(1500), bad.first, bad.second)
    assert 0.75 < proposed(refit(HALF_POINTS, good, silent))["object"] < 1.35
