"""Votes as columns, and how a mean over them may be off: for other voters and other cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from evaluation.analysis.covariance import CONFIDENCE, SEED, t_quantile
from evaluation.analysis.survival import Floats

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
#: Draws of voters, and as many of cases, behind an interval that is no mean.
DRAWS = 400


@dataclass(frozen=True)
class Ballots:
    """A row for each vote, in numbers that mean something to whoever made them.

    Of pairs, `answer` is 1 for the first, -1 for the second and 0 for "cannot say", `left` the
    same for the sides they stood on, and `first` and `second` are the models where the pair
    compares two after the same trip, else -1. Of a single picture `answer` is 1 for yes and 0
    for no, and `first` the model.
    """

    voter: Ints
    case: Ints
    question: Ints
    first: Ints
    second: Ints
    answer: Floats
    left: Floats

    def __len__(self) -> int:
        return len(self.voter)

    def only(self, rows: Bools) -> Self:
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True)
class Share:
    """A weighted share of votes with its 95 % interval; bounds of None: too few to tell."""

    share: float
    low: float | None
    high: float | None
    votes: int


def weighted_share(values: Floats, weights: Floats, voter: Ints, case: Ints) -> Share | None:
    """The weighted mean of values from 0 to 1; None where nothing weighs anything.

    Its variance is the sum of two, by voter and by case, as that of usable trips is by picture
    and by pair (evaluation.analysis.covariance): nothing is subtracted, which keeps it safe.
    """
    total = weights.sum()
    if total <= 0:
        return None
    share = float(weights @ values / total)
    apart = weights * (values - share) / total
    groups = [np.unique(labels, return_inverse=True)[1] for labels in (voter, case)]
    sizes = [int(codes.max()) + 1 for codes in groups]
    if min(sizes) < 2:
        return Share(share, None, None, len(values))
    variance = sum(
        size / (size - 1) * float(np.square(np.bincount(codes, apart)).sum())
        for codes, size in zip(groups, sizes, strict=True)
    )
    reach = t_quantile((1 + CONFIDENCE) / 2, min(sizes) - 1) * math.sqrt(variance)
    return Share(share, max(0.0, share - reach), min(1.0, share + reach), len(values))


def redrawn(
    estimate: Callable[[Floats], Floats], voter: Ints, case: Ints, draws: int | None = None
) -> tuple[Floats, Floats]:
    """An estimate from votes, and draws of what it might have been: a row for each.

    `estimate` takes how often each vote counts. Voters are drawn anew, and apart from them the
    cases; a draw is off by both.
    """
    random, draws = np.random.default_rng(SEED), draws or DRAWS
    middle = estimate(np.ones(len(voter)))
    found = np.tile(middle, (draws, 1))
    for labels in (voter, case):
        codes = np.unique(labels, return_inverse=True)[1]
        size = int(codes.max()) + 1
        counts = random.multinomial(size, np.full(size, 1 / size), draws)
        found += np.array([estimate(own[codes].astype(float)) for own in counts]) - middle
    return middle, found


def bounds(draws: Floats) -> tuple[Floats, Floats]:
    """The ends of the 95 % intervals of each column."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.nanquantile(draws, [tail, 1 - tail], axis=0)
    return low, high
