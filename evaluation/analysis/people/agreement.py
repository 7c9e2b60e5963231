"""How far a metric, a witness or a judge agrees with people, and people with each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluation.analysis.people.ballots import Ballots, Bools, Share, weighted_share
from evaluation.analysis.survival import Floats


@dataclass(frozen=True)
class Agreement:
    """Of the votes that chose one of a pair: how often the same was chosen.

    `shared` is the same on the pairs alone that several people were asked about, where the
    people's own agreement is known.
    """

    everywhere: Share | None
    shared: Share | None


def with_people(says: Floats, ballots: Ballots, weights: Floats) -> Agreement:
    """`says`: for each vote 1 for the first, -1 for the second, 0 for a tie, NaN for nothing.

    Who cannot tell two apart is right half of the time.
    """
    told = (ballots.answer != 0) & ~np.isnan(says)
    right = np.where(says == 0, 0.5, says == ballots.answer)

    def share(rows: Bools) -> Share | None:
        own = ballots.only(rows)
        return weighted_share(right[rows], weights[rows], own.voter, own.case)

    return Agreement(share(told), share(told & ~np.isnan(others_agree(ballots, weights))))


def among_people(ballots: Ballots, weights: Floats) -> Share | None:
    """How often one person's choice is that of another who was asked the same."""
    agree = others_agree(ballots, weights)
    there = ~np.isnan(agree)
    own = ballots.only(there)
    return weighted_share(agree[there], weights[there], own.voter, own.case)


def others_agree(ballots: Ballots, weights: Floats) -> Floats:
    """For each vote the weighted share of others who chose the same; NaN without others.

    A voter's own repeat of a question is no other's vote; who cannot say chose nothing.
    """
    found = np.full(len(ballots), np.nan)
    chose = ballots.answer != 0
    order = np.flatnonzero(chose)[np.argsort(ballots.question[chose], kind="stable")]
    if not len(order):
        return found
    parts = np.flatnonzero(np.diff(ballots.question[order])) + 1
    for rows in np.split(order, parts):
        if len(rows) < 2:
            continue
        voters, answers, weight = ballots.voter[rows], ballots.answer[rows], weights[rows]
        other = voters[:, None] != voters[None]
        total = other @ weight
        same = ((answers[:, None] == answers[None]) & other) @ weight
        known = total > 0
        found[rows[known]] = same[known] / total[known]
    return found
