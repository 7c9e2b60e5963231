"""How far each voter is believed. The rule is stated here, and nowhere else.

1. Checks. Some questions have a known answer, and some of a voter's own pairs come again with
   their sides exchanged. Of somebody new we expect four of five checks to be passed:
   trust = (4 + passed) / (5 + checks). The weight is 1 from 0.85 on, 0 at 0.5 (tossing a coin),
   and in between as far as trust lies between the two.
2. Sides. They are drawn by lot. Whoever chose one side so often that chance does so once in
   16,000 times (4 standard deviations) keeps the weight times twice the share of the other side.
3. The common order. Whoever agrees with it less than chance explains (3 standard deviations)
   keeps the weight times what is left: how far they are above a coin, of what was expected.

Nobody's votes are deleted: a rule that changes gives every vote its new weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from evaluation.analysis.people.ballots import Ballots
from evaluation.analysis.survival import Floats

EXPECTED_PASSED, EXPECTED_CHECKS = 4.0, 5.0
COIN, FULL = 0.5, 0.85
SIDES_APART, ORDER_APART = 4.0, 3.0
#: With fewer votes neither rule 2 nor rule 3 can be told from chance.
LEAST_VOTES = 12


@dataclass(frozen=True)
class Checks:
    """How a voter did where the answer is known, or their own."""

    gold: int = 0
    gold_right: int = 0
    repeats: int = 0
    repeats_same: int = 0

    @property
    def trust(self) -> float:
        passed, made = self.gold_right + self.repeats_same, self.gold + self.repeats
        return (EXPECTED_PASSED + passed) / (EXPECTED_CHECKS + made)


@dataclass(frozen=True)
class Belief:
    """A voter's weight from 0 to 1, and what took it down."""

    weight: float
    reasons: tuple[str, ...] = field(default=())


def by_checks(checks: Checks) -> float:
    return min(1.0, max(0.0, (checks.trust - COIN) / (FULL - COIN)))


def beliefs(
    checks: dict[int, Checks], ballots: Ballots, expected: Floats | None = None
) -> dict[int, Belief]:
    """Every voter's belief, by number.

    `expected`: for each ballot how likely the common order's own choice is the first of its
    pair; NaN where it says nothing.
    """
    found = {}
    for voter in {*checks, *ballots.voter.tolist()}:
        own = ballots.voter == voter
        weight = by_checks(checks.get(voter, Checks()))
        reasons = ["fails checks"] if weight < 0.5 else []
        if (kept := _by_sides(ballots.left[own])) < 1:
            weight *= kept
            reasons.append("chooses a side")
        if expected is not None:
            kept = _by_order(ballots.answer[own], expected[own])
            if kept < 1:
                weight *= kept
                reasons.append("apart from the common order")
        found[voter] = Belief(weight, tuple(reasons))
    return found


def _by_sides(left: Floats) -> float:
    chosen = left[left != 0]
    if len(chosen) < LEAST_VOTES:
        return 1.0
    off = abs(float(chosen.sum()))
    if off <= SIDES_APART * math.sqrt(len(chosen)):
        return 1.0
    return 1 - off / len(chosen)


def _by_order(answers: Floats, expected: Floats) -> float:
    """What is left of a voter's weight by the third rule."""
    told = (answers != 0) & ~np.isnan(expected)
    if told.sum() < LEAST_VOTES:
        return 1.0
    likely = np.maximum(expected[told], 1 - expected[told])
    agrees = (answers[told] > 0) == (expected[told] > 0.5)
    hoped, seen = float(likely.sum()), float(agrees.sum())
    spread = math.sqrt(float((likely * (1 - likely)).sum()))
    coin = told.sum() / 2
    if seen >= hoped - ORDER_APART * spread or hoped <= coin:
        return 1.0
    return max(0.0, (seen - coin) / (hoped - coin))
