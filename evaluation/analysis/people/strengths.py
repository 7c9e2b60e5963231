"""Whom people prefer: Bradley-Terry strengths of the models of a suite, with intervals.

Luce's model by `choix`, whose solver takes counts: "cannot say" is half a vote for either, so a
strength tells the share of pairs won with ties halved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluation.analysis.people.ballots import Ballots, bounds, redrawn
from evaluation.analysis.people.voters import Belief, Checks, beliefs
from evaluation.analysis.survival import Floats

#: Every model begins with one vote that was a tie, spread over the others: who has won all of
#: few votes is not endlessly strong.
PRIOR = 1.0
#: How often weights and strengths are worked out from each other; they settle at once.
ROUNDS = 3
#: From here on a model's number is shown.
LEAST_VOTES, LEAST_VOTERS = 30, 5


@dataclass(frozen=True)
class Strength:
    """One model as people see it: the share of pairs that it wins against the others."""

    share: float
    low: float
    high: float
    #: Of the Bradley-Terry model, in logits around the mean of all.
    strength: float
    strength_low: float
    strength_high: float
    votes: int
    voters: int

    @property
    def enough(self) -> bool:
        return self.votes >= LEAST_VOTES and self.voters >= LEAST_VOTERS


def strengths(
    ballots: Ballots, weights: dict[int, float], models: int, draws: int | None = None
) -> list[Strength] | None:
    """The strength of each model, by number; None where there is nothing to compare."""
    rows = (ballots.first >= 0) & (ballots.second >= 0)
    own = ballots.only(rows)
    weight = np.array([weights.get(voter, 0.0) for voter in own.voter.tolist()])
    if models < 2 or weight.sum() <= 0:
        return None
    middle, drawn = redrawn(
        lambda times: fit(own, weight * times, models), own.voter, own.case, draws
    )
    (low, high), shares = bounds(drawn), won(middle)
    share_low, share_high = bounds(np.array([won(one) for one in drawn]))
    counted = weight > 0
    found = []
    for model in range(models):
        mine = counted & ((own.first == model) | (own.second == model))
        found.append(
            Strength(
                share=float(shares[model]),
                low=float(share_low[model]),
                high=float(share_high[model]),
                strength=float(middle[model]),
                strength_low=float(low[model]),
                strength_high=float(high[model]),
                votes=int(mine.sum()),
                voters=len(np.unique(own.voter[mine])),
            )
        )
    return found


def fit(ballots: Ballots, weights: Floats, models: int) -> Floats:
    """The strengths that explain these votes best, around 0."""
    import choix

    wins = np.full((models, models), PRIOR / 2 / (models - 1))
    first, second = ballots.first, ballots.second
    for one, other, sign in ((first, second, 1), (second, first, -1)):
        gained = weights * np.where(ballots.answer == sign, 1.0, (ballots.answer == 0) / 2)
        wins += np.bincount(one * models + other, gained, models**2).reshape(models, models)
    np.fill_diagonal(wins, 0)
    found = choix.ilsr_pairwise_dense(wins)
    return np.asarray(found - found.mean())


def chance(strength: Floats, ballots: Ballots) -> Floats:
    """How likely the first of each pair is preferred; NaN where it is no pair of two models."""
    known = (ballots.first >= 0) & (ballots.second >= 0)
    found = np.full(len(ballots), np.nan)
    gap = strength[ballots.first[known]] - strength[ballots.second[known]]
    found[known] = 1 / (1 + np.exp(-gap))
    return found


def won(strength: Floats) -> Floats:
    """The share of pairs that each model wins, against every other alike."""
    table = 1 / (1 + np.exp(strength[None] - strength[:, None]))
    np.fill_diagonal(table, 0)
    return np.asarray(table.sum(axis=1) / (len(strength) - 1))


def believed(ballots: Ballots, checks: dict[int, Checks], models: int) -> dict[int, Belief]:
    """How far each voter is believed, by checks, sides and the order that the believed give."""
    found = beliefs(checks, ballots)
    rows = (ballots.first >= 0) & (ballots.second >= 0)
    if models < 2 or not rows.any():
        return found
    own = ballots.only(rows)
    for _ in range(ROUNDS):
        weight = np.array([found[voter].weight for voter in own.voter.tolist()])
        if weight.sum() <= 0:
            break
        found = beliefs(checks, ballots, chance(fit(own, weight, models), ballots))
    return found
