"""Standard errors of means over cases, for other images and other edits.

Cases share images and pairs, so they are not independent. The covariance is the sum of two
cluster-robust ones, by image and by pair (Cameron, Gelbach & Miller 2011, without the term
they subtract: on the few images and pairs of a suite that is conservative).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from evaluation.analysis.events import Case
from evaluation.analysis.survival import Floats, case_weights

CONFIDENCE = 0.95
SEED = 2026
# With fewer, simulated boards of equal models separate them too often.
MIN_IMAGES, MIN_PAIRS, MIN_FREEDOM = 10, 12, 5


@dataclass(frozen=True)
class Interval:
    """A 95 % interval. A bound of a half-life is None if it lies beyond N ("> N")."""

    low: float | None
    high: float | None


class _Groups:
    """Rows grouped by label, the labels in alphabetical order."""

    def __init__(self, labels: Sequence[str]) -> None:
        # Not by np.unique, which is many times slower for the few cases of most scopes.
        code = {label: place for place, label in enumerate(sorted(set(labels)))}
        self.codes = np.array([code[label] for label in labels], dtype=np.intp)
        self.sizes = np.bincount(self.codes)
        self._order = np.argsort(self.codes, kind="stable")
        self._starts = np.cumsum(self.sizes) - self.sizes

    def sums(self, values: Floats) -> Floats:
        """Return the sum of each group's rows."""
        return np.asarray(np.add.reduceat(values[self._order], self._starts, axis=0))


class Design:
    """The cases of a suite, or of a part of it, with their weights and groups."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = tuple(cases)
        self.weights = case_weights(cases)
        self._category = _Groups([case.category for case in cases])
        self._image = _Groups([case.image for case in cases])
        self._pair = _Groups([case.pair for case in cases])

    @property
    def categories(self) -> int:
        return len(self._category.sizes)

    @property
    def category(self) -> NDArray[np.intp]:
        """Return the number of each case's category."""
        return self._category.codes

    @property
    def images(self) -> int:
        return len(self._image.sizes)

    @property
    def pairs(self) -> int:
        return len(self._pair.sizes)

    @property
    def freedom(self) -> int:
        """Return the degrees of freedom of every interval."""
        return min(self.images, self.pairs) - self.categories

    @property
    def enough(self) -> bool:
        """Return True if there are enough images and pairs for intervals and ranks."""
        return self.images >= MIN_IMAGES and self.pairs >= MIN_PAIRS and self.freedom >= MIN_FREEDOM

    def mean(self, values: Floats) -> Floats:
        """Return the mean over cases, then categories, of each column (a row per case)."""
        return np.asarray(self.weights @ values)

    def shares(self, values: Floats) -> Floats:
        """Return a row of error shares of the means for each image and pair.

        These rows S carry the whole covariance: it is S'S. So S'g, with g standard normal, is a
        draw of the means' error, without a factorisation.
        """
        means = self._category.sums(values) / self._category.sizes[:, None]
        deviations = self.weights[:, None] * (values - means[self._category.codes])
        images, pairs, categories = self.images, self.pairs, self.categories
        return np.concatenate(
            [
                self._image.sums(deviations) * math.sqrt(images / (images - 1)),
                self._pair.sums(deviations) * math.sqrt(pairs / (pairs - categories)),
            ]
        )

    def standard_errors(self, values: Floats) -> Floats:
        """Return the standard error of each column's mean."""
        return np.asarray(np.sqrt(np.square(self.shares(values)).sum(axis=0)))

    def draws(self, values: Floats, number: int, seed: int = SEED) -> Floats:
        """Draw errors of the columns' means, a row for each: a multivariate t."""
        random = np.random.default_rng(seed)
        shares = self.shares(values)
        normal = random.standard_normal((number, len(shares)))
        return np.asarray(normal @ shares / t_scale(random, self.freedom, number)[:, None])


def t_scale(random: np.random.Generator, freedom: int, number: int) -> Floats:
    """Draw the divisor that makes a normal draw one of Student's t."""
    return np.asarray(np.sqrt(random.chisquare(freedom, number) / freedom))


def t_probability(t: float, freedom: int) -> float:
    """Return the probability that Student's t is below `t`.

    It is a closed form for whole degrees of freedom (Abramowitz & Stegun 26.7.3 and 26.7.4), so
    that web processes need no scipy for it.
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
    """Return the quantile of Student's t at this probability, from 1/2 on."""
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
