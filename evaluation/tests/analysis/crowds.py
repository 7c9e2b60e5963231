"""Simulated voters with known skill and bias, to check the statistics of votes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evaluation.analysis.survival import Floats
from evaluation.analysis.votes import Ballots, Checks

#: The answer of a simulated voter: 1 for the first image, -1 for the second, 0 for a tie. Arguments
#: are the pair's difference in logits, its difference by colour alone, and whether the first is left.
Answer = Callable[[np.random.Generator, float, float, bool], int]

HONEST, CLICKER, LEFT, COLOUR = "honest", "clicker", "always left", "colour only"
#: The difference of a gold pair: every careful voter gets it right.
GOLD_GAP = 6.0


def honest(random: np.random.Generator, gap: float, _colour: float, _left: bool) -> int:
    if random.random() < 0.12 * np.exp(-abs(gap)):
        return 0
    return 1 if random.random() < 1 / (1 + np.exp(-gap)) else -1


def clicker(random: np.random.Generator, _gap: float, _colour: float, _left: bool) -> int:
    return int(random.choice((1, -1)))


def always_left(_random: np.random.Generator, _gap: float, _colour: float, left: bool) -> int:
    return 1 if left else -1


def colour_only(random: np.random.Generator, _gap: float, colour: float, left: bool) -> int:
    return honest(random, colour, colour, left)


KINDS: dict[str, Answer] = {
    HONEST: honest,
    CLICKER: clicker,
    LEFT: always_left,
    COLOUR: colour_only,
}


@dataclass(frozen=True)
class Crowd:
    """The votes of a crowd, with the kind of each voter."""

    ballots: Ballots
    checks: dict[int, Checks]
    kinds: dict[int, str]
    planted: Floats

    def of(self, kind: str) -> list[int]:
        return [voter for voter, own in self.kinds.items() if own == kind]


def crowd(
    counts: dict[str, int],
    planted: Floats,
    *,
    votes: int = 40,
    cases: int = 30,
    seed: int = 0,
    case_spread: float = 0.4,
) -> Crowd:
    """Return the votes of a crowd; each voter votes in sessions of ten.

    In a session eight votes are on pairs of two models on some case, where a model's strength varies
    around the planted one. One vote is on a gold pair and one repeats a pair with swapped sides.
    """
    random = np.random.default_rng(seed)
    models = len(planted)
    by_case = planted + case_spread * random.standard_normal((cases, models))
    by_colour = random.permutation(planted)
    rows: list[tuple[int, ...]] = []
    checks: dict[int, Checks] = {}
    kinds: dict[int, str] = {}
    for kind, number in counts.items():
        for _ in range(number):
            voter = len(kinds)
            kinds[voter], made = kind, [0, 0, 0, 0]
            answer = KINDS[kind]
            for _session in range(votes // 10):
                own: list[tuple[float, float, int]] = []
                for _ in range(8):
                    case = int(random.integers(cases))
                    one, other = random.choice(models, 2, replace=False)
                    gap = by_case[case, one] - by_case[case, other]
                    colour = float(by_colour[one] - by_colour[other])
                    left = bool(random.random() < 0.5)
                    said = answer(random, gap, colour, left)
                    own.append((gap, colour, said))
                    question = hash((case, min(one, other), max(one, other))) % 2**31
                    side = said if left else -said
                    rows.append((voter, case, question, int(one), int(other), said, side))
                # The session's easiest pair is repeated: a careful voter answers the same.
                gap, colour, said = max(own, key=lambda pair: abs(pair[0]))
                again = answer(random, gap, colour, bool(random.random() < 0.5))
                made[2] += 1
                made[3] += again == said
                gold = answer(random, GOLD_GAP, GOLD_GAP / 4, bool(random.random() < 0.5))
                made[0] += 1
                made[1] += gold == 1
            checks[voter] = Checks(made[0], made[1], made[2], made[3])
    table = np.array(rows)
    ballots = Ballots(*(table[:, place] for place in range(5)), *table[:, 5:].T.astype(float))
    return Crowd(ballots, checks, kinds, planted)
