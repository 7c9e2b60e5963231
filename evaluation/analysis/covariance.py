"""Standard errors of means over cases, for other images and other edits.

Cases share images and pairs, so they are not independent. The covariance is the sum of two
cluster-robust ones, by image and by pair (Cameron, Gelbach & Miller 2011). They subtract the part
counted twice; here a case whose image and pair are in no other case is counted by pair alone,
and the rest stays in both, which is conservative on the few images and pairs of a suite. Each
model adds two pseudo-clusters, one lost at once and one that lasts, as Agresti & Coull (1998) do
for a share: without them a model that never failed would have no error.
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


# The size of a pseudo-cluster: with it the intervals hold a truth at either end of the scale.
PSEUDO = 1.3


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
        self._alone = (self._image.sizes[self._image.codes] == 1) & (
            self._pair.sizes[self._pair.codes] == 1
        )

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

    def shares(self, values: Floats, longest: float | Floats) -> Floats:
        """Return rows S of error shares of the columns' means; S'S is the covariance.

        So S'g, with g standard normal, is a draw of the means' error, without a factorisation,
        and the difference of two columns of S has the shares of the columns' difference.
        `longest` = the upper end of each column's scale, which begins at 0; an end of 0 adds no
        pseudo-clusters.
        """
        ends = [np.diag(end) for end in self._pseudo_clusters(values, longest)]
        return np.concatenate([self._clusters(values), *ends])

    def standard_errors(self, values: Floats, longest: float | Floats) -> Floats:
        """Return the standard error of each column's mean."""
        ends = np.stack(self._pseudo_clusters(values, longest))
        return errors_of(np.concatenate([self._clusters(values), ends]))

    def difference_errors(self, first: Floats, second: Floats, longest: float | Floats) -> Floats:
        """Return the standard error of each column's difference of means, model by model."""
        ends = [end for values in (first, second) for end in self._pseudo_clusters(values, longest)]
        return errors_of(np.concatenate([self._clusters(first - second), np.stack(ends)]))

    def _clusters(self, values: Floats) -> Floats:
        """Return a row of shares for each image and each pair."""
        means = self._category.sums(values) / self._category.sizes[:, None]
        deviations = self.weights[:, None] * (values - means[self._category.codes])
        images, pairs, categories = self.images, self.pairs, self.categories
        by_image = self._image.sums(np.where(self._alone[:, None], 0, deviations))
        return np.concatenate(
            [
                by_image * math.sqrt(images / (images - 1)),
                self._pair.sums(deviations) * math.sqrt(pairs / (pairs - categories)),
            ]
        )

    def _pseudo_clusters(self, values: Floats, longest: float | Floats) -> tuple[Floats, Floats]:
        """Return each column's shares of a cluster lost at once and of one that lasts.

        Squared, so that they count at the ends of the scale, where few cases have failed or few
        have lasted, and hardly in its middle, where the cases themselves show their spread.
        """
        ends = np.broadcast_to(np.asarray(longest, dtype=float), values.shape[1:])
        means = np.clip(self.mean(values), 0, ends)
        size = PSEUDO / (min(self.images, self.pairs) + 1)
        lost, lasting = (
            np.divide(size * part**2, ends, out=np.zeros_like(ends), where=ends > 0)
            for part in (means, ends - means)
        )
        return lost, lasting

    def draws(self, shares: Floats, number: int, seed: int = SEED) -> Floats:
        """Draw errors with these shares, a row for each: a multivariate t."""
        random = np.random.default_rng(seed)
        normal = random.standard_normal((number, len(shares)))
        return np.asarray(normal @ shares / t_scale(random, self.freedom, number)[:, None])


def errors_of(shares: Floats) -> Floats:
    """Return the standard error of each column with these shares."""
    return np.asarray(np.sqrt(np.square(shares).sum(axis=0)))


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
