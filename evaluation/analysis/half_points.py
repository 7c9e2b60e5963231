"""Proposals of half points for the headline's parts, fitted to people's votes.

The headline (the metric `overall`) adds up one term per part, (distance / half point)². An image's
retention is 1 / (1 + the sum of the terms), so one part at its half point, without other loss,
halves the retention. If a half point is too small by a factor f, its terms are too large by f². We
therefore fit one factor per part to the terms. The fit has two aims: half of the people call an
image with the sum 1 unusable, and people prefer the image with the smaller sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.analysis.survival import Floats
from evaluation.analysis.votes import Ballots, Bools, Share, enough, weighted_share

#: A vote counts for a part if the part's term is at least this share of the sum of a shown image.
MIN_SHARE = 0.25
# The prior: today's half points are right within a factor of two (one standard deviation). No
# proposal changes a half point by more than a factor of four.
PRIOR_SPREAD, LARGEST_FACTOR = math.log(2), math.log(4)
# Answers follow the lead (`VotesWithTerms.lead`) with a slope. This is the prior of its logarithm.
SLOPE, SLOPE_SPREAD = math.log(2), 1.0
#: The number of folds for cross-validation over cases.
FOLDS = 5
# Added to every sum, because smaller sums cannot be told apart by eye.
OFFSET = 0.02


@dataclass(frozen=True)
class VotesWithTerms:
    """Votes on two images or on single images, with the terms of the shown images.

    `first` and `second` have the terms of the two images, one row per vote and one column per part;
    `second` is None for single images. A part that does not apply to an image has the term 0.
    """

    ballots: Ballots
    weights: Floats
    first: Floats
    second: Floats | None = None

    def only(self, rows: Bools) -> VotesWithTerms:
        second = None if self.second is None else self.second[rows]
        return VotesWithTerms(self.ballots.only(rows), self.weights[rows], self.first[rows], second)

    @property
    def target(self) -> Floats:
        """Return each answer: 1 for "usable" or the first image, 0 for the opposite, else 0.5."""
        return self.ballots.answer if self.second is None else (1 + self.ballots.answer) / 2

    def lead(self, factors: Floats) -> tuple[Floats, Floats]:
        """Return how far the first image is ahead (in log sums), and the gradient by part.

        A single image is ahead if its sum is below 1.
        """
        lead, slopes = _log_sum(self.first, factors)
        if self.second is None:
            return -lead, -slopes
        other, other_slopes = _log_sum(self.second, factors)
        return other - lead, other_slopes - slopes

    def informed_parts(self) -> Bools:
        """Return which votes (rows) count for which parts (columns)."""
        sides = [self.first] if self.second is None else [self.first, self.second]
        shares = [side / (side.sum(axis=1, keepdims=True) + OFFSET) for side in sides]
        counted: Bools = (np.max(shares, axis=0) >= MIN_SHARE) & (self.weights > 0)[:, None]
        return counted


def _log_sum(terms: Floats, factors: Floats) -> tuple[Floats, Floats]:
    """Return the logarithm of each image's sum of terms, and its gradient by part."""
    scaled = terms * np.exp(factors)
    total = scaled.sum(axis=1) + OFFSET
    return np.log(total), scaled / total[:, None]


@dataclass(frozen=True)
class HalfPoint:
    """A part's half point today and as fitted to votes; `proposed` is None with too few votes."""

    part: str
    today: float
    proposed: float | None
    votes: int


@dataclass(frozen=True)
class Refit:
    """The proposed half points, and the agreement with votes `before` and `after` the change.

    The agreement `after` is measured on held-out cases.
    """

    half_points: Sequence[HalfPoint]
    before: Share
    after: Share
    #: The interval of the gain in agreement; None if voters or cases are too few.
    gain_low: float | None
    gain_high: float | None


def refit(
    half_points: Mapping[str, float], single: VotesWithTerms, pairs: VotesWithTerms
) -> Refit | None:
    """Return the proposal; None if no part has enough votes, or if there are too few cases.

    `half_points` has today's half points, in the order of the terms' columns.
    """
    kinds = [_decided(kind) for kind in (single, pairs)]
    informed = np.concatenate([kind.informed_parts() for kind in kinds])
    voters = np.concatenate([kind.ballots.voter for kind in kinds])
    cases = np.concatenate([kind.ballots.case for kind in kinds])
    counts = informed.sum(axis=0)
    free = np.array(
        [
            enough(int(count), len(np.unique(voters[rows])))
            for count, rows in zip(counts, informed.T, strict=True)
        ]
    )
    folds = _folds(cases)
    if not free.any() or len(np.unique(folds)) < FOLDS:
        return None
    before = _agreement(kinds, np.zeros(len(half_points)))
    after = np.zeros(len(cases))
    for fold in range(FOLDS):
        held_out = folds == fold
        factors = _fit(_only(kinds, ~held_out), free)
        after[held_out] = _agreement(_only(kinds, held_out), factors)
    weights = np.concatenate([kind.weights for kind in kinds])
    # The gain is between -1 and 1. It is mapped to 0..1, as `weighted_share` requires.
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
                half_points.items(), proposed, free, counts, strict=True
            )
        ),
        shares[0],
        shares[1],
        None if gain.low is None else 2 * gain.low - 1,
        None if gain.high is None else 2 * gain.high - 1,
    )


def _decided(kind: VotesWithTerms) -> VotesWithTerms:
    """Return the votes with a positive weight and an answer other than "cannot say"."""
    return kind.only((kind.weights > 0) & (kind.target != 0.5))


def _folds(cases: np.ndarray) -> np.ndarray:
    """Return the fold of each vote; all votes on a case share a fold."""
    return np.asarray(np.unique(cases, return_inverse=True)[1] % FOLDS)


def _only(kinds: Sequence[VotesWithTerms], rows: Bools) -> list[VotesWithTerms]:
    ends = np.cumsum([len(kind.ballots) for kind in kinds])[:-1]
    return [kind.only(part) for kind, part in zip(kinds, np.split(rows, ends), strict=True)]


def _agreement(kinds: Sequence[VotesWithTerms], factors: Floats) -> Floats:
    """Return for each vote whether the headline agrees: 1, 0, or 0.5 for a tie."""
    return np.concatenate(
        [
            np.where(lead == 0, 0.5, (lead > 0) == (kind.target > 0.5))
            for kind in kinds
            for lead in (kind.lead(factors)[0],)
        ]
    )


def _fit(kinds: Sequence[VotesWithTerms], free: Bools) -> Floats:
    """Return the logarithms of the fitted factors. They are 0 for parts that are not `free`."""
    from scipy.optimize import minimize

    parts, free_places = len(free), np.flatnonzero(free)

    def loss(values: Floats) -> tuple[float, Floats]:
        factors, slopes = np.zeros(parts), values[len(free_places) :]
        factors[free_places] = values[: len(free_places)]
        # Twice the spread, because a term contains the square of the half point.
        total = float(np.square(factors / (2 * PRIOR_SPREAD)).sum() / 2)
        gradient = factors / (2 * PRIOR_SPREAD) ** 2
        by_slope = []
        for kind, slope in zip(kinds, slopes, strict=True):
            steep = math.exp(slope)
            lead, by_factor = kind.lead(factors)
            odds = np.clip(steep * lead, -30, 30)
            target = kind.target
            total += float(kind.weights @ (np.logaddexp(0, odds) - target * odds))
            off = kind.weights * (1 / (1 + np.exp(-odds)) - target) * steep
            gradient = gradient + off @ by_factor
            total += ((slope - SLOPE) / SLOPE_SPREAD) ** 2 / 2
            by_slope.append(float(off @ lead) + (slope - SLOPE) / SLOPE_SPREAD**2)
        return total, np.concatenate([gradient[free_places], by_slope])

    factor_bounds = (-2 * LARGEST_FACTOR, 2 * LARGEST_FACTOR)
    limits = [factor_bounds] * len(free_places) + [(SLOPE - 3, SLOPE + 3)] * len(kinds)
    start = np.concatenate([np.zeros(len(free_places)), np.full(len(kinds), SLOPE)])
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits).x
    factors = np.zeros(parts)
    factors[free_places] = best[: len(free_places)]
    return factors
