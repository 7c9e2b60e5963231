"""How many of its errors a difference takes to be sure, when all pairs of runs are looked at.

That is a quantile, over draws, of the largest difference of any two runs, in errors of that
difference. Half a million pairs of a thousand runs over ten thousand draws are too many to look
at each, and few of them matter: runs are laid out in tiles, a tile's extremes bound what its
runs differ by from those of another, and only where that bound could move the quantile are its
pairs looked at. The result is the same number to the last bit.
"""

from __future__ import annotations

import math

import numpy as np

from evaluation.analysis.survival import Floats

#: Runs to a tile. With fewer there are too many bounds, with more they are too wide.
TILE = 24
#: Draws that tell which runs are alike and which tiles are far apart: those come first, so that
#: the rest can be passed over.
SAMPLE = 500


def reach(drawn: Floats, errors: Floats, least: float, confidence: float) -> float:
    """The quantile at `confidence` of the largest difference between two columns of `drawn`.

    A row of `drawn` is one draw. Differences are told in `errors`, a number for each two columns;
    those of columns whose error is at most `least` count as none.
    """
    draws, count = drawn.shape
    scale = np.divide(1, errors, out=np.zeros_like(errors), where=errors > least)
    # Runs of like errors lie together: the bound of a tile is then close to what its runs differ by.
    order = np.argsort(np.square(drawn[:SAMPLE]).sum(axis=0), kind="stable")
    by_run, scale = np.ascontiguousarray(drawn.T[order]), scale[np.ix_(order, order)]
    starts = np.arange(0, count, TILE)
    tiles = [slice(start, start + TILE) for start in starts]
    high, low = np.maximum.reduceat(by_run, starts), np.minimum.reduceat(by_run, starts)
    most = np.maximum.reduceat(np.maximum.reduceat(scale, starts), starts, axis=1)

    def bound(one: int, other: int, some: slice = slice(None)) -> Floats:
        """In each draw, what no run of one tile differs by more from a run of another."""
        apart = np.maximum(high[one, some] - low[other, some], high[other, some] - low[one, some])
        return np.asarray(apart * most[one, other])

    pairs = [(one, other) for one in range(len(tiles)) for other in range(one + 1)]
    pairs.sort(key=lambda pair: -float(bound(pair[0], pair[1], slice(SAMPLE)).mean()))
    # The quantile lies between this one of the sorted draws and the next. Whatever is no larger
    # than what is known of it so far may stay unknown: it does not move either of them.
    place = math.floor(confidence * (draws - 1))
    largest, known = np.zeros(draws), 0.0
    for one, other in pairs:
        open_ = np.flatnonzero(bound(one, other) > np.maximum(largest, known))
        if not open_.size:
            continue
        others, between = by_run[tiles[other]][:, open_], scale[tiles[one], tiles[other]]
        found = largest[open_]
        for own, by in zip(by_run[tiles[one]][:, open_], between, strict=True):
            apart = others - own
            np.abs(apart, out=apart)
            apart *= by[:, None]
            np.maximum(found, apart.max(axis=0), out=found)
        largest[open_] = found
        known = float(np.partition(largest, place)[place])
    return float(np.quantile(largest, confidence))
