"""The worst place: what a mean over the whole image hides, such as one lost face.

LPIPS before its spatial mean is a map. In windows of a sixth of each side the loss
beyond that of unseen grain is compared with that of the source's blank card; the
worst window counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evaluation.metrics.base import (
    CELLS,
    Box,
    Cells,
    Combined,
    CombinedMetric,
    Found,
    LossWords,
    Mask,
)
from evaluation.metrics.lpips import Lpips

# In cells: about a face, and how far apart.
WINDOW, STRIDE = 8, 2
# Grain of three levels is 38.6 dB: nobody sees it. Yet in smooth places the network compares
# directions of features that are next to nothing, and finds it as bad as half a blank card.
GRAIN, TILE = 3.0, 512
# Where a card loses no more than grain in half of all windows, there would be no scale.
LEAST = 0.05
# A window of which more lies in the edit's footprint does not count.
INSIDE = 0.25


class Place(CombinedMetric):
    """1 - what is kept in the worst window outside the edit's footprint."""

    name, label, version = "place", "Worst place", "alex-0.1-48-3"
    looks_at = "the worst place"
    higher_is_better = True
    blank = 1.0
    parts = (Lpips.name,)
    references = ("blank", "grain")
    lost = LossWords(
        cause="place",
        ended="one place is lost",
        crossed="One place of the image is half lost",
        because="in one place",
        most="one place changed most",
        level="sub-object",
    )
    smallest, modules = Lpips.smallest, Lpips.modules

    @property
    def weights_sha256(self) -> str | None:
        return Lpips().weights_sha256

    def missing(self) -> list[str]:
        return Lpips().missing()

    def combine(self, found: Found) -> Combined:
        """The worst place of every image, and what is kept where the edit was made."""
        found.check_scale(Lpips)
        losses = found.losses[Lpips.name]
        if not losses:
            return Combined([], {"places": [], "maps": []} if found.maps else {"places": []})
        drawn = found.references[Lpips.name]
        scale = Scale(drawn["blank"].cells, drawn["grain"].cells)
        measured = list(zip(losses, found.footprints, strict=True))
        places = [worst_place(loss.cells, scale, mask) for loss, mask in measured]
        findings: dict[str, list[Any]] = {"places": places}
        if any(mask is not None and mask.any() for mask in found.footprints):
            findings["undo"] = [
                None if mask is None else kept_inside(loss.cells, scale, mask)
                for loss, mask in measured
            ]
        if found.maps:
            findings["maps"] = [lost_share(loss.cells, scale) for loss in losses]
        return Combined([max(0.0, 1 - place.kept) for place in places], findings)


@dataclass(frozen=True)
class Scale:
    """What a source loses, cell by cell, as a blank card and by grain that nobody sees."""

    card: Cells
    grain: Cells

    def lost(
        self, loss: NDArray[np.float64], card: NDArray[np.float64], grain: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The share that is lost beyond the grain of what a blank card loses in the same places."""
        # A blank card loses little on a flat wall, which then says nothing: there the loss is
        # compared with what the card loses in half of all windows.
        median = float(np.median(_windows(self.card) - _windows(self.grain)))
        share: NDArray[np.float64] = np.maximum(loss - grain, 0) / np.maximum(
            card - grain, max(median, LEAST)
        )
        return share


def grainy(source: Image.Image) -> Image.Image:
    """The source with grain that nobody sees, the same each time."""
    values = np.array(source)
    columns = np.arange(source.width) % TILE
    # A band at a time: the numbers in between of a large image are too much to hold.
    for top in range(0, source.height, TILE):
        band = values[top : top + TILE]
        worn = band.astype(np.int16) + _grain()[: len(band), columns]
        band[:] = worn.clip(0, 255)
    return Image.fromarray(values)


@lru_cache(maxsize=1)
def _grain() -> NDArray[np.int8]:
    # The old generator: its numbers are promised to stay the same in every version of numpy.
    values = np.random.RandomState(0).normal(0, GRAIN, (TILE, TILE, 3))
    return np.rint(values).astype(np.int8)


@dataclass(frozen=True)
class WorstPlace:
    """Where most is lost, and how much of it is kept: 1 is all, 0 as little as on a blank card."""

    box: Box
    kept: float


def worst_place(loss: Cells, scale: Scale, footprint: Mask | None = None) -> WorstPlace:
    """The window that keeps least of the image, of those outside the footprint."""
    kept = 1 - scale.lost(_windows(loss), _windows(scale.card), _windows(scale.grain))
    if footprint is not None:
        outside = _windows(footprint) <= INSIDE
        # A footprint is at most a quarter of the image; if it still touches every
        # window, all of them count: no chain may be without a worst place.
        kept = np.where(outside | ~outside.any(), kept, np.inf)
    row, column = np.unravel_index(int(kept.argmin()), kept.shape)
    left, top = int(column) * STRIDE, int(row) * STRIDE
    box = (left / CELLS, top / CELLS, (left + WINDOW) / CELLS, (top + WINDOW) / CELLS)
    return WorstPlace(box, float(kept[row, column]))


def kept_inside(loss: Cells, scale: Scale, footprint: Mask) -> float:
    """How much is kept within the footprint, on the scale of the places."""
    found = (
        np.asarray(cells[footprint].mean(dtype=np.float64))
        for cells in (loss, scale.card, scale.grain)
    )
    return 1 - float(scale.lost(*found))


def lost_share(loss: Cells, scale: Scale) -> Cells:
    """Cell by cell how much is lost: 0 is nothing, 1 as much as on a blank card."""
    found = (cells.astype(np.float64) for cells in (loss, scale.card, scale.grain))
    return scale.lost(*found).astype(np.float32)


def _windows(cells: NDArray[np.generic]) -> NDArray[np.float64]:
    """The mean of every window, 21 x 21 of them."""
    sums = np.pad(cells.astype(np.float64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    total = sums[WINDOW:, WINDOW:] - sums[:-WINDOW, WINDOW:]
    total -= sums[WINDOW:, :-WINDOW] - sums[:-WINDOW, :-WINDOW]
    means: NDArray[np.float64] = total[::STRIDE, ::STRIDE] / WINDOW**2
    return means
