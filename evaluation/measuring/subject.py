"""Annotations of a chain's images that metrics need in addition to the pixels.

The footprint is the region of the first forward edit. Loss inside the footprint counts like any
other loss, and the retention inside it is also reported separately, as `undo`. Audits (extra
requests that test for cheating) use the footprint too (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from evaluation.alignment import registered, unaligned
from evaluation.content.suites import EditPair, SuiteImage
from evaluation.images import EncodedImage
from evaluation.metrics.base import CELLS, Box, Cells, Mask, Subject

# A cell (of a coarse grid over the image) counts as changed if its difference exceeds two limits:
# this share of the full range, and this multiple of the median cell's difference.
CHANGED = 0.06
CHANGED_TO_MEDIAN = 4.0
GROWN = 2  # cells
MAX_AREA = 0.25  # of the image
MAX_AREA_TOGETHER = 0.5  # of the image, for all edits of a trip together


class ChainSubject:
    """The subject of one chain, extended by its first trips.

    The footprint of an ordinary chain is the footprint of its first edit. If a trip has several
    edits, it is the union of the edits' footprints, each measured in the trip that first makes the
    edit.
    """

    def __init__(
        self,
        image: SuiteImage | None,
        source: EncodedImage,
        pair: EditPair,
        face: Box | None = None,
    ) -> None:
        self.source, self.pair = source, pair
        self.subject = chain_subject(image, face=face)
        shapes = pair.cycle if pair.shape else ()
        self._edits = sum(len(shape.moves) for shape in shapes)

    def update(self, number: int, images: Sequence[EncodedImage | None]) -> Subject:
        """Extend the footprint by the edits of trip `number`; return the subject.

        The trips of the first cycle must be passed in order; later trips change nothing. `images`
        are the trip's starting image, then the answers to its steps.
        """
        if not self.pair.shape:
            if number == 1 and (first := images[1]):
                region = footprint(self.source.decoded, first.decoded, self.pair)
                self.subject = Subject(self.subject.face, region)
        elif number <= len(self.pair.cycle):
            for move in self.pair.trip(number).moves:
                before, edited = images[move.before], images[move.edited]
                if before and edited:
                    self._add(before, edited, self.pair.move_as_pair(number, move))
        return self.subject

    def _add(self, before: EncodedImage, edited: EncodedImage, pair: EditPair) -> None:
        most = min(MAX_AREA, MAX_AREA_TOGETHER / self._edits)
        region = footprint(before.decoded, edited.decoded, pair, most)
        previous = self.subject.footprint
        if region is not None:
            self.subject = Subject(
                self.subject.face, region if previous is None else previous | region
            )


def chain_subject(
    image: SuiteImage | None,
    source: EncodedImage | None = None,
    first_edit: EncodedImage | None = None,
    pair: EditPair | None = None,
    face: Box | None = None,
) -> Subject:
    """Return the subject: the suite image's annotated face and the first edit's footprint.

    Pass `face` only for an image that is not in a suite. The footprint is None if the first edit
    is not stored.
    """
    if image is not None:
        face = image.annotations.face
    region = None
    if source is not None and first_edit is not None and pair is not None:
        region = footprint(source.decoded, first_edit.decoded, pair)
    return Subject(face, region)


def footprint(
    source: Image.Image, edited: Image.Image, pair: EditPair, most: float = MAX_AREA
) -> Mask | None:
    """Return the cells changed by a forward edit, limited to the share `most` of all cells.

    Only the connected part with the most change counts; other changes are damage. Returns None if
    no cell changed, or if the edit has no region, such as a flip or a new style.
    """
    if pair.change != "local":
        return None
    import cv2

    images = registered(unaligned(source, edited))
    change = cv2.resize(images.difference, (CELLS, CELLS), interpolation=cv2.INTER_AREA)
    limit = max(CHANGED, CHANGED_TO_MEDIAN * float(np.median(change)))
    changed = change > limit
    if not changed.any():
        return None
    _, parts = cv2.connectedComponents(changed.astype(np.uint8), connectivity=8)
    amounts = np.bincount(parts.ravel(), weights=change.ravel())
    amounts[0] = 0  # the unchanged cells
    part = parts == amounts.argmax()
    square = np.ones((2 * GROWN + 1, 2 * GROWN + 1), np.uint8)
    grown = cv2.dilate(part.astype(np.uint8), square).astype(bool)
    return _at_most(grown, part, change, most)


def _at_most(grown: Mask, part: Mask, change: Cells, share: float) -> Mask:
    """Reduce the mask to this share of the image.

    Cells added by dilation are removed first, then the cells that changed least.
    """
    most = int(share * grown.size)
    if grown.sum() <= most:
        return grown
    order = np.argsort(np.where(grown, change + part, -1), axis=None)[::-1]
    reduced = np.zeros(grown.size, dtype=bool)
    reduced[order[:most]] = True
    return reduced.reshape(grown.shape)
