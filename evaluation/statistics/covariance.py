"""How far a mean over cases may be off: for other pictures and for other edits.

Cases share pictures and pairs, so they are no sample of their own. The covariance is the
sum of two cluster-robust ones, by picture and by pair (Cameron, Gelbach & Miller 2011,
without what they subtract: on the few pictures and pairs of a suite that keeps it safe).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from evaluation.statistics.events import Case
from evaluation.statistics.survival import Floats, case_weights

CONFIDENCE = 0.95
SEED = 2026
# Measured with ten equal models: 8 pictures x 8 pairs in 4 categories told them apart on
# 13-15 % of boards, 10 x 12 on 1 %.
MIN_PICTURES, MIN_PAIRS, MIN_FREEDOM = 10, 12, 5


@dataclass(frozen=True)
class Interval:
    """A 95 % interval. A bound of a half-life is None where it lies beyond N ("> N")."""

    low: float | None
    high: float | None


class Design:
    """The cases of a suite, or of a part of it: their weights, and what they share."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = tuple(cases)
        self.weights = case_weights(cases)
        self._category, self._picture, self._pair = (
            _members(labels)
            for labels in (
                [case.category for case in cases],
                [case.picture for case in cases],
                [case.pair for case in cases],
            )
        )

    @property
    def categories(self) -> int:
        return self._category.shape[1]

    @property
    def pictures(self) -> int:
        return self._picture.shape[1]

    @property
    def pairs(self) -> int:
        return self._pair.shape[1]

    @property
    def freedom(self) -> int:
        """The degrees of freedom of every interval."""
        return min(self.pictures, self.pairs) - self.categories

    @property
    def enough(self) -> bool:
        """Are there pictures and pairs enough for an interval, and to tell models apart?"""
        return (
            self.pictures >= MIN_PICTURES
            and self.pairs >= MIN_PAIRS
            and self.freedom >= MIN_FREEDOM
        )

    def rows(self, scope: str) -> NDArray[np.intp]:
        """The places of the cases in this scope: "all", "category:…", "kind:…" or "pair:…"."""
        return np.flatnonzero([scope in case.scopes for case in self.cases])

    def mean(self, values: Floats) -> Floats:
        """The mean over cases, then categories, of each column (a row per case)."""
        return np.asarray(self.weights @ values)

    def shares(self, values: Floats) -> Floats:
        """What each picture and each pair adds to the error of the means: a row for each.

        These rows S carry the whole covariance: it is S'S. So S'g, with g standard
        normal, is a draw of the means' error, without a factorisation.
        """
        own = self._category.T @ values / self._category.sum(axis=0)[:, None]
        apart = self.weights[:, None] * (values - self._category @ own)
        return np.concatenate(
            [
                self._picture.T @ apart * self._scale_of_pictures,
                self._pair.T @ apart * self._scale_of_pairs,
            ]
        )

    @cached_property
    def _scale_of_pictures(self) -> float:
        return math.sqrt(self.pictures / (self.pictures - 1))

    @cached_property
    def _scale_of_pairs(self) -> float:
        return math.sqrt(self.pairs / (self.pairs - self.categories))

    def covariance(self, values: Floats) -> Floats:
        """The covariance of the columns' means."""
        shares = self.shares(values)
        return np.asarray(shares.T @ shares)

    def standard_errors(self, values: Floats) -> Floats:
        """The standard error of each column's mean."""
        return np.asarray(np.sqrt(np.square(self.shares(values)).sum(axis=0)))

    def draws(self, values: Floats, number: int, seed: int = SEED) -> Floats:
        """So many errors of the columns' means, a row for each: a multivariate t."""
        random = np.random.default_rng(seed)
        shares = self.shares(values)
        normal = random.standard_normal((number, len(shares)))
        return np.asarray(normal @ shares / t_scale(random, self.freedom, number)[:, None])


def t_scale(random: np.random.Generator, freedom: int, number: int) -> Floats:
    """What a normal draw is divided by to be one of Student's t."""
    return np.asarray(np.sqrt(random.chisquare(freedom, number) / freedom))


def t_probability(t: float, freedom: int) -> float:
    """How likely Student's t is below `t` (Abramowitz & Stegun 26.7.3 and 26.7.4).

    Closed for whole degrees of freedom, so that web processes need no scipy for it.
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term, total = (cosine, cosine) if odd else (1.0, 1.0)
    if freedom == 1:
        total = 0.0
    for power in range(2 + odd, freedom - 1, 2):
        term *= cosine**2 * (power - 1) / power
        total += term
    within = math.sin(angle) * total
    return 0.5 + ((angle + within) / math.pi if odd else within / 2)


@cache
def t_quantile(probability: float, freedom: int) -> float:
    """The t below which Student's t lies with this probability, from 1/2 on."""
    low, high = 0.0, 1.0
    while t_probability(high, freedom) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if t_probability(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _members(labels: Sequence[str]) -> Floats:
    """A column of 0 and 1 for each label, in the order of the labels' names."""
    names, codes = np.unique(labels, return_inverse=True)
    return np.eye(len(names))[codes]
