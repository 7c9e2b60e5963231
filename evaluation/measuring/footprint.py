"""Where the first forward edit was made: what is lost there is not damage (method §3).

Nobody can know the hair under a hat, so the footprint does not count for the worst
place; how well it came back is told apart, as `undo`.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from evaluation.content.suites import EditPair
from evaluation.measuring.alignment import registered, unaligned
from evaluation.metrics.base import CELLS, Cells, Mask

# A cell changed when it differs by so much, of the full range, and so much more than most.
CHANGED = 0.06
CHANGED_TO_MEDIAN = 4.0
GROWN = 2  # cells
MOST = 0.25  # of the picture


def footprint(source: Image.Image, edited: Image.Image, pair: EditPair) -> Mask | None:
    """The cells of the first forward edit; None where it has no place, or none is found.

    Of all that changed, the connected part with the most change: what else the model
    altered is damage. A flip or a new style has no place of its own.
    """
    if pair.change != "local":
        return None
    import cv2

    pictures = registered(unaligned(source, edited))
    change = cv2.resize(pictures.difference, (CELLS, CELLS), interpolation=cv2.INTER_AREA)
    limit = max(CHANGED, CHANGED_TO_MEDIAN * float(np.median(change)))
    changed = change > limit
    if not changed.any():
        return None
    _, parts = cv2.connectedComponents(changed.astype(np.uint8), connectivity=8)
    amounts = np.bincount(parts.ravel(), weights=change.ravel())
    amounts[0] = 0  # what did not change
    part = parts == amounts.argmax()
    square = np.ones((2 * GROWN + 1, 2 * GROWN + 1), np.uint8)
    grown = cv2.dilate(part.astype(np.uint8), square).astype(bool)
    return _at_most(grown, part, change)


def _at_most(grown: Mask, part: Mask, change: Cells) -> Mask:
    """The mask, cut down to a quarter of the picture where it is larger.

    What was grown goes first, then the cells that changed least.
    """
    most = int(MOST * grown.size)
    if grown.sum() <= most:
        return grown
    order = np.argsort(np.where(grown, change + part, -1), axis=None)[::-1]
    kept = np.zeros(grown.size, dtype=bool)
    kept[order[:most]] = True
    return kept.reshape(grown.shape)
