"""The worst place: what a mean over the whole picture hides, such as one lost face.

LPIPS before its spatial mean is a map. In windows of a sixth of each side the loss
is compared with that of the source's blank card there; the worst window counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics.base import CELLS, Box, Cells, Mask, Metric
from evaluation.metrics.lpips import Lpips

# In cells: about a face, and how far apart.
WINDOW, STRIDE = 8, 2
# A blank card loses little on a flat wall, which then says nothing: there the loss is
# compared with this share of the card's median.
FLOOR = 0.5
# Nobody sees so small a loss: in smooth places invisible grain makes as much, for the network
# compares directions of features there that are next to nothing. It counts as none.
UNSEEN = 0.05
# A window of which more lies in the edit's footprint does not count.
INSIDE = 0.25


class Place(Metric):
    """1 - what is kept in the worst window outside the edit's footprint."""

    name, label, version = "place", "Worst place", "alex-0.1-48-2"
    looks_at = "the worst place"
    higher_is_better = True
    blank = 1.0
    parts = ("lpips",)
    smallest, modules = Lpips.smallest, Lpips.modules

    @property
    def weights_sha256(self) -> str | None:
        return Lpips().weights_sha256

    def missing(self) -> list[str]:
        return Lpips().missing()


@dataclass(frozen=True)
class WorstPlace:
    """Where most is lost, and how much of it is kept: 1 is all, 0 as little as on a blank card."""

    box: Box
    kept: float


def worst_place(loss: Cells, card: Cells, footprint: Mask | None = None) -> WorstPlace:
    """The window that keeps least of the picture, of those outside the footprint."""
    kept = 1 - _lost(_windows(loss), _windows(card), card)
    if footprint is not None:
        outside = _windows(footprint) <= INSIDE
        # A footprint is at most a quarter of the picture; if it still touches every
        # window, all of them count: no chain may be without a worst place.
        kept = np.where(outside | ~outside.any(), kept, np.inf)
    row, column = np.unravel_index(int(kept.argmin()), kept.shape)
    left, top = int(column) * STRIDE, int(row) * STRIDE
    box = (left / CELLS, top / CELLS, (left + WINDOW) / CELLS, (top + WINDOW) / CELLS)
    return WorstPlace(box, float(kept[row, column]))


def kept_inside(loss: Cells, card: Cells, footprint: Mask) -> float:
    """How much is kept within the footprint, on the scale of the places."""
    lost, blank = (np.asarray(cells[footprint].mean(dtype=np.float64)) for cells in (loss, card))
    return 1 - float(_lost(lost, blank, card))


def lost_share(loss: Cells, card: Cells) -> Cells:
    """Cell by cell how much is lost: 0 is nothing, 1 as much as on a blank card."""
    share = _lost(loss.astype(np.float64), card.astype(np.float64), card)
    return share.astype(np.float32)


def _lost(
    loss: NDArray[np.float64], blank: NDArray[np.float64], card: Cells
) -> NDArray[np.float64]:
    """The share that is lost of what a blank card loses (`blank`) in the same places."""
    # Never 0, even if more than half of the picture is the card's very colour.
    least = max(FLOOR * float(np.median(_windows(card))), 2 * UNSEEN)
    lost: NDArray[np.float64] = np.maximum(loss - UNSEEN, 0) / (np.maximum(blank, least) - UNSEEN)
    return lost


def _windows(cells: NDArray[np.generic]) -> NDArray[np.float64]:
    """The mean of every window, 21 x 21 of them."""
    sums = np.pad(cells.astype(np.float64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    total = sums[WINDOW:, WINDOW:] - sums[:-WINDOW, WINDOW:]
    total -= sums[WINDOW:, :-WINDOW] - sums[:-WINDOW, :-WINDOW]
    means: NDArray[np.float64] = total[::STRIDE, ::STRIDE] / WINDOW**2
    return means
