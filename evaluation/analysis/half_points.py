"""Proposals of half points for the headline's parts, fitted to people's votes.

Each part of an image has a term, (distance / half point)², and the image keeps 1 / (1 + their
sum). A half point that is too small by a factor f makes its terms too large by f². So the factors
of the terms are fitted: half of the people should no longer use an image whose sum is 1, and of
two images prefer the one with the smaller sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.analysis.survival import Floats
from evaluation.analysis.votes import Ballots, Bools, Share, enough, weighted_share

#: A vote bears on a part that makes up this share of the sum of one of its images.
BEARS = 0.25
# Today's half points are believed within a factor of two (one standard deviation), and no
# proposal leaves a factor of four.
BELIEVED, MOST = math.log(2), math.log(4)
# The slope of the curve of yes over the logarithm of the sum is less certain.
SLOPE, SLOPE_SPREAD = math.log(2), 1.0
#: Votes are predicted from those on other cases: the cases are divided into so many parts.
FOLDS = 5
# As much as no image is without: images that lost less all look new, and say little.
ALWAYS = 0.02


@dataclass(frozen=True)
class Judged:
    """Votes of one kind: a row for each vote, a column of terms for each part.

    A part that does not apply to an image has the term 0. `second` is of pairs.
    """

    ballots: Ballots
    weights: Floats
    first: Floats
    second: Floats | None = None

    def only(self, rows: Bools) -> Judged:
        second = None if self.second is None else self.second[rows]
        return Judged(self.ballots.only(rows), self.weights[rows], self.first[rows], second)

    @property
    def wanted(self) -> Floats:
        """Return 1 for usable, or for the first of a pair, and 0.5 for "cannot say"."""
        return self.ballots.answer if self.second is None else (1 + self.ballots.answer) / 2

    def lead(self, factors: Floats) -> tuple[Floats, Floats]:
        """Return by vote how far the first image is ahead, and its slopes by factor."""
        lead, slopes = _sum(self.first, factors)
        if self.second is None:
            return -lead, -slopes
        other, other_slopes = _sum(self.second, factors)
        return other - lead, other_slopes - slopes

    def bears(self) -> Bools:
        """Return which votes bear on which part: some image has much of its loss by it."""
        sides = [self.first] if self.second is None else [self.first, self.second]
        shares = [side / (side.sum(axis=1, keepdims=True) + ALWAYS) for side in sides]
        counted: Bools = (np.max(shares, axis=0) >= BEARS) & (self.weights > 0)[:, None]
        return counted


def _sum(terms: Floats, factors: Floats) -> tuple[Floats, Floats]:
    """Return the logarithm of each image's sum, and its slopes."""
    scaled = terms * np.exp(factors)
    total = scaled.sum(axis=1) + ALWAYS
    return np.log(total), scaled / total[:, None]


@dataclass(frozen=True)
class HalfPoint:
    """A part's half point today and by votes; None: too few votes."""

    part: str
    today: float
    proposed: float | None
    votes: int


@dataclass(frozen=True)
class Refit:
    """The proposal, and the agreement with votes on cases that it was not fitted to."""

    half_points: Sequence[HalfPoint]
    before: Share
    after: Share
    #: The interval of what is gained; None: too few voters or cases.
    gain_low: float | None
    gain_high: float | None


def refit(halves: Mapping[str, float], single: Judged, pairs: Judged) -> Refit | None:
    """Return the proposal; None while no part has enough votes that bear on it.

    `halves`: today's half points, in the order of the terms' columns.
    """
    kinds = [_decided(kind) for kind in (single, pairs)]
    bearing = np.concatenate([kind.bears() for kind in kinds])
    voters = np.concatenate([kind.ballots.voter for kind in kinds])
    cases = np.concatenate([kind.ballots.case for kind in kinds])
    counts = bearing.sum(axis=0)
    free = np.array(
        [
            enough(int(count), len(np.unique(voters[rows])))
            for count, rows in zip(counts, bearing.T, strict=True)
        ]
    )
    folds = _folds(cases)
    if not free.any() or len(np.unique(folds)) < FOLDS:
        return None
    before = _agreement(kinds, np.zeros(len(halves)))
    after = np.zeros(len(cases))
    for fold in range(FOLDS):
        held_out = folds == fold
        factors = _fit(_only(kinds, ~held_out), free)
        after[held_out] = _agreement(_only(kinds, held_out), factors)
    weights = np.concatenate([kind.weights for kind in kinds])
    # A gain lies between -1 and 1, a share between 0 and 1.
    shares = [
        weighted_share(values, weights, voters, cases)
        for values in (before, after, (1 + after - before) / 2)
    ]
    if shares[0] is None or shares[1] is None or shares[2] is None:
        return None
    gain = shares[2]
    proposed = np.exp(-_fit(kinds, free) / 2)
    return Refit(
        tuple(
            HalfPoint(part, half, float(half * change) if moved else None, int(count))
            for (part, half), change, moved, count in zip(
                halves.items(), proposed, free, counts, strict=True
            )
        ),
        shares[0],
        shares[1],
        None if gain.low is None else 2 * gain.low - 1,
        None if gain.high is None else 2 * gain.high - 1,
    )


def _decided(kind: Judged) -> Judged:
    """Leave out votes without weight, and "cannot say"."""
    return kind.only((kind.weights > 0) & (kind.wanted != 0.5))


def _folds(cases: np.ndarray) -> np.ndarray:
    """Return the fold of each vote; all votes on a case are in one."""
    return np.asarray(np.unique(cases, return_inverse=True)[1] % FOLDS)


def _only(kinds: Sequence[Judged], rows: Bools) -> list[Judged]:
    ends = np.cumsum([len(kind.ballots) for kind in kinds])[:-1]
    return [kind.only(part) for kind, part in zip(kinds, np.split(rows, ends), strict=True)]


def _agreement(kinds: Sequence[Judged], factors: Floats) -> Floats:
    """Return the headline's agreement with each vote: 1, 0, or a half for a tie."""
    return np.concatenate(
        [
            np.where(lead == 0, 0.5, (lead > 0) == (kind.wanted > 0.5))
            for kind in kinds
            for lead in (kind.lead(factors)[0],)
        ]
    )


def _fit(kinds: Sequence[Judged], free: Bools) -> Floats:
    """Return the logarithms of the best factors; 0 if a factor is not free."""
    from scipy.optimize import minimize

    parts, places = len(free), np.flatnonzero(free)

    def loss(values: Floats) -> tuple[float, Floats]:
        factors, slopes = np.zeros(parts), values[len(places) :]
        factors[places] = values[: len(places)]
        # A half point within a factor of two is a factor of the terms within four.
        total = float(np.square(factors / (2 * BELIEVED)).sum() / 2)
        gradient = factors / (2 * BELIEVED) ** 2
        by_slope = []
        for kind, slope in zip(kinds, slopes, strict=True):
            steep = math.exp(slope)
            lead, by_factor = kind.lead(factors)
            odds = np.clip(steep * lead, -30, 30)
            wanted = kind.wanted
            total += float(kind.weights @ (np.logaddexp(0, odds) - wanted * odds))
            off = kind.weights * (1 / (1 + np.exp(-odds)) - wanted) * steep
            gradient = gradient + off @ by_factor
            total += ((slope - SLOPE) / SLOPE_SPREAD) ** 2 / 2
            by_slope.append(float(off @ lead) + (slope - SLOPE) / SLOPE_SPREAD**2)
        return total, np.concatenate([gradient[places], by_slope])

    reach = (-2 * MOST, 2 * MOST)
    bounds = [reach] * len(places) + [(SLOPE - 3, SLOPE + 3)] * len(kinds)
    start = np.concatenate([np.zeros(len(places)), np.full(len(kinds), SLOPE)])
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    factors = np.zeros(parts)
    factors[places] = best[: len(places)]
    return factors
