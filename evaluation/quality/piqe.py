"""PIQE (Venkatanath et al., 2015): the share of the lively blocks that look impaired or noisy.

It needs no training. The rules are those of MATLAB's `piqe`, which pyiqa follows too, with its
odd choice of the columns around a block's middle.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from evaluation.quality.base import Luma, QualityMetric, Values
from evaluation.quality.natural_scenes import normalised

BLOCK, SEGMENT = 16, 6
LIVELY = 0.1  # a block's variance
IMPAIRED = 0.1  # the spread of a segment of a block's edge


class Piqe(QualityMetric):
    name, version, smallest = "piqe", "matlab-16-1", BLOCK

    def value(self, luma: Luma) -> float | None:
        if not luma.any():
            return 100.0  # as of every picture in which nothing varies
        beyond = [(0, -side % BLOCK) for side in luma.shape]
        padded = np.pad(luma.astype(np.float64), beyond, mode="symmetric")
        field = normalised(np.round(255 * padded / padded.max()), replicate=True)
        rows, columns = (side // BLOCK for side in field.shape)
        tiles = field.reshape(rows, BLOCK, columns, BLOCK).swapaxes(1, 2)
        blocks: Values = tiles.reshape(-1, BLOCK, BLOCK)
        variances = blocks.var((1, 2), ddof=1)
        lively = variances > LIVELY
        blocks, variances = blocks[lively], variances[lively]
        worth = _impaired(blocks) * (1 - variances) + _noisy(blocks, variances) * variances
        return float(100 * (worth.sum() + 1) / (len(blocks) + 1))


def _impaired(blocks: Values) -> Values:
    """1 for each block with a flat piece in one of its edges."""
    edges = np.stack([blocks[:, 0], blocks[:, -1], blocks[:, :, 0], blocks[:, :, -1]], axis=1)
    spreads = sliding_window_view(edges, SEGMENT, axis=2).std(3, ddof=1)
    return (spreads < IMPAIRED).any((1, 2)).astype(np.float64)


def _noisy(blocks: Values, variances: Values) -> Values:
    """1 for each block that varies in its middle as it does around it."""
    middle = BLOCK // 2 - 1
    centre = blocks[:, :, middle : middle + 2]
    around = np.delete(blocks, [middle, middle + 2], axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(centre.std((1, 2), ddof=1) / around.std((1, 2), ddof=1))
    spread = np.sqrt(variances)
    beta = np.abs(spread - ratio) / np.maximum(spread, ratio)
    return (spread > 2 * beta).astype(np.float64)
