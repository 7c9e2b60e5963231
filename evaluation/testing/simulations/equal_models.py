"""Boards of models that are exactly equal: do intervals and ranks keep their promise?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from evaluation.analysis.covariance import CONFIDENCE, Design, t_quantile
from evaluation.analysis.power import MODELS, MOST, Lifetimes, difference
from evaluation.analysis.ranking import rank_board

#: The method's limits: coverage of the 95 % interval, boards that tell equal models apart.
COVERAGE = (0.93, 0.98)
TOLD_APART = 0.05
INTERVALS = 4_000


@dataclass(frozen=True)
class Simulation:
    """Boards of ten equal models: how often intervals cover, and what should not be seen.

    `told_apart` = share of boards with more than one rank, `against_order` = share where the
    lower ends of the rank sets, without what `Ranks.shared` does, would run against the order.
    """

    coverage: float
    told_apart: float
    against_order: float

    @property
    def kept(self) -> bool:
        """Are the method's limits kept?"""
        return COVERAGE[0] <= self.coverage <= COVERAGE[1] and self.told_apart <= TOLD_APART


def simulate(
    design: Design, trips: int, lifetimes: Lifetimes, boards: int, seed: int = 0
) -> Simulation:
    """What boards of equal models show."""
    random = np.random.default_rng(seed)
    told = against = 0
    for _ in range(boards):
        usable = np.minimum(lifetimes.drawn(design, random, MODELS)[:, 0], trips)
        ranks = rank_board(design, usable, draws=4_000)
        order = np.argsort(-design.mean(usable))
        told += max(ranks.shared) > 1
        against += bool((np.diff([ranks.sets[run][0] for run in order]) < 0).any())
    return Simulation(coverage(design, trips, lifetimes, random), told / boards, against / boards)


def coverage(
    design: Design, trips: int, lifetimes: Lifetimes, random: np.random.Generator
) -> float:
    """How often the interval holds the truth, over models that share nothing."""
    usable = np.minimum(lifetimes.drawn(design, random, 1, INTERVALS)[:, :, 0], trips)
    reach = t_quantile((1 + CONFIDENCE) / 2, design.freedom) * design.standard_errors(usable)
    missed = np.abs(design.mean(usable) - lifetimes.usable_trips(trips)) > reach
    return float(1 - missed.mean())


def found(design: Design, trips: int, own: float, apart: float, boards: int) -> float:
    """The share of boards that tell two models of so many usable trips apart, among ten."""
    random = np.random.default_rng(1)
    middle = Lifetimes(0.4 * trips, own_image=own, own_pair=own)
    factor = np.ones(MODELS)
    ratio = brentq(lambda r: difference(middle, r, trips) - apart, 1, MOST)
    factor[:2] = math.sqrt(ratio), 1 / math.sqrt(ratio)
    shown = 0
    for _ in range(boards):
        usable = np.minimum(middle.drawn(design, random, MODELS)[:, 0] * factor, trips)
        shown += bool(rank_board(design, usable, draws=4_000).better[0, 1])
    return shown / boards
