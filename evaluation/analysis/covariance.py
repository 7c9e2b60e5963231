"""Standard errors of means over cases, which allow for the choice of images and edits.

Cases share images and pairs, so they are not independent. The covariance is the sum of two
cluster-robust covariances, one by image and one by pair (Cameron, Gelbach & Miller 2011). The paper
then subtracts what both contain. We do not: a case that shares neither image nor pair with another
case counts once, by pair, but all other cases count twice. Our standard errors are therefore rather
too large, which is the safe side for the few images and pairs of a suite.

Two pseudo-clusters are added for each model, one that ends at once and one that lasts, as Agresti &
Coull (1998) do for proportions. Without them, a model that never failed would have a standard error
of 0.
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
# With fewer images, pairs or degrees of freedom, simulated boards separate equal models too often.
MIN_IMAGES, MIN_PAIRS, MIN_FREEDOM = 10, 12, 5


# The size of a pseudo-cluster. Large enough that intervals also cover true values near the ends of
# the range.
PSEUDO = 1.3


@dataclass(frozen=True)
class Interval:
    """A 95 % interval. A bound of None, possible for half-lives, is longer than N trips ("> N")."""

    low: float | None
    high: float | None


class _Groups:
    """Rows grouped by label; groups are in alphabetical order."""

    def __init__(self, labels: Sequence[str]) -> None:
        # Not np.unique, which is many times slower for the few cases of most scopes.
        code = {label: index for index, label in enumerate(sorted(set(labels)))}
        self.codes = np.array([code[label] for label in labels], dtype=np.intp)
        self.sizes = np.bincount(self.codes)
        self._order = np.argsort(self.codes, kind="stable")
        self._starts = np.cumsum(self.sizes) - self.sizes

    def sums(self, values: Floats) -> Floats:
        """Return the sum of each group's rows."""
        return np.asarray(np.add.reduceat(values[self._order], self._starts, axis=0))


class Design:
    """The cases of a suite or of a scope, with their weights and clusters."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = tuple(cases)
        self.weights = case_weights(cases)
        self._category = _Groups([case.category for case in cases])
        self._image = _Groups([case.image for case in cases])
        self._pair = _Groups([case.pair for case in cases])
        self._counted_once = (self._image.sizes[self._image.codes] == 1) & (
            self._pair.sizes[self._pair.codes] == 1
        )

    @property
    def categories(self) -> int:
        return len(self._category.sizes)

    @property
    def category(self) -> NDArray[np.intp]:
        """Return the index of each case's category."""
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
        """Return each column's mean over cases, then categories; `values` has one row per case."""
        return np.asarray(self.weights @ values)

    def covariance_factor(self, values: Floats, scale_end: float | Floats) -> Floats:
        """Return a matrix S for which S'S is the covariance of the columns' means.

        If g is standard normal, S'g is a random draw of the errors of the means. The difference of
        two columns of S is the factor for the difference of their means. Values of a column are
        from 0 to `scale_end`; with a `scale_end` of 0, the column gets no pseudo-clusters.
        """
        ends = [np.diag(end) for end in self._pseudo_clusters(values, scale_end)]
        return np.concatenate([self._clusters(values), *ends])

    def standard_errors(self, values: Floats, scale_end: float | Floats) -> Floats:
        """Return the standard error of each column's mean."""
        ends = np.stack(self._pseudo_clusters(values, scale_end))
        return errors_of(np.concatenate([self._clusters(values), ends]))

    def difference_errors(self, first: Floats, second: Floats, scale_end: float | Floats) -> Floats:
        """Return the standard error of each column's difference of means between two models."""
        ends = [
            end for values in (first, second) for end in self._pseudo_clusters(values, scale_end)
        ]
        return errors_of(np.concatenate([self._clusters(first - second), np.stack(ends)]))

    def _clusters(self, values: Floats) -> Floats:
        """Return the rows of S for images and pairs."""
        means = self._category.sums(values) / self._category.sizes[:, None]
        deviations = self.weights[:, None] * (values - means[self._category.codes])
        images, pairs, categories = self.images, self.pairs, self.categories
        by_image = self._image.sums(np.where(self._counted_once[:, None], 0, deviations))
        return np.concatenate(
            [
                by_image * math.sqrt(images / (images - 1)),
                self._pair.sums(deviations) * math.sqrt(pairs / (pairs - categories)),
            ]
        )

    def _pseudo_clusters(self, values: Floats, scale_end: float | Floats) -> tuple[Floats, Floats]:
        """Return the rows of S for a cluster that ends at once and for a cluster that lasts.

        The means are squared, so pseudo-clusters matter near the ends of the range, where almost
        all cases agree, and hardly in the middle.
        """
        ends = np.broadcast_to(np.asarray(scale_end, dtype=float), values.shape[1:])
        means = np.clip(self.mean(values), 0, ends)
        size = PSEUDO / (min(self.images, self.pairs) + 1)
        ends_at_once, lasting = (
            np.divide(size * part**2, ends, out=np.zeros_like(ends), where=ends > 0)
            for part in (means, ends - means)
        )
        return ends_at_once, lasting

    def draws(self, factor: Floats, number: int, seed: int = SEED) -> Floats:
        """Draw errors from the multivariate t with this covariance factor, one draw per row."""
        random = np.random.default_rng(seed)
        normal = random.standard_normal((number, len(factor)))
        return np.asarray(normal @ factor / t_scale(random, self.freedom, number)[:, None])


def errors_of(factor: Floats) -> Floats:
    """Return the standard error of each column, given a factor of the covariance."""
    return np.asarray(np.sqrt(np.square(factor).sum(axis=0)))


def t_scale(random: np.random.Generator, freedom: int, number: int) -> Floats:
    """Draw random divisors that turn standard normal draws into draws of Student's t."""
    return np.asarray(np.sqrt(random.chisquare(freedom, number) / freedom))


def t_probability(t: float, freedom: int) -> float:
    """Return the probability that Student's t is below `t`.

    This is the closed form for whole degrees of freedom (Abramowitz & Stegun 26.7.3 and 26.7.4). It
    is used because web processes must not import scipy.
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
    """Return the quantile of Student's t at a probability of at least 1/2."""
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
