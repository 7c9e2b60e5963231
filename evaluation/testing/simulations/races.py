"""Simulated races whose truth is known: how often a settled rank is wrong, and what it saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.analysis.covariance import SEED, Design
from evaluation.analysis.power import Lifetimes
from evaluation.analysis.racing import Race, look, rounds_of


@dataclass(frozen=True)
class Raced:
    """Of many races: the share that ended early, that ended so wrongly, and of cases played."""

    settled: float
    wrong: float
    played: float


def simulate(
    design: Design,
    trips: int,
    race: Race,
    medians: Sequence[float],
    races: int,
    own: float = 0.2,
    seed: int = SEED,
) -> Raced:
    """Race a model of the last of these median lifetimes against complete runs of the others.

    Its true rank is that of its lifetime: 1 + how many of the others are longer.
    """
    random = np.random.default_rng(seed)
    rank = 1 + sum(median > medians[-1] for median in medians[:-1])
    slugs = [(f"{case.picture}/{case.pair}", case.category) for case in design.cases]
    settled = wrong = 0
    played = 0.0
    for number in range(races):
        base = Lifetimes(1.0, own_picture=own, own_pair=own)
        lifetimes = base.drawn(design, random, len(medians))[:, 0] * np.asarray(medians)
        usable = np.minimum(lifetimes, trips)
        dealt = rounds_of(slugs, race.rounds, f"{seed}-{number}")
        rounds = np.array([dealt[slug] for slug, _ in slugs])
        last = race.rounds
        for of in range(1, race.rounds):
            here = usable.copy()
            here[rounds > of, -1] = np.nan
            found = look(race, of, design.cases, here, trips)
            if found.settled:
                settled += 1
                wrong += not race.is_true(found.low, found.high, rank)
                last = of
                break
        played += float((rounds <= last).mean())
    return Raced(settled / races, wrong / races, played / races)


def board(trips: int, models: int = 8, ratio: float = 1.35) -> list[float]:
    """Median lifetimes of a board's models, each so many times that of the next."""
    middle = replace(Lifetimes(0.4 * trips)).median
    return [middle * ratio ** (models / 2 - place) for place in range(models)]
