"""What is known of a chain's pictures beside their pixels, for the metrics that need it.

The footprint is where the first forward edit was made: what is lost there is not damage
(method §3). Nobody can know the hair under a hat, so it does not count for the worst place;
how well it came back is told apart, as `undo`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from evaluation.content.suites import EditPair, SourcePicture
from evaluation.images import Picture
from evaluation.measuring.alignment import registered, unaligned
from evaluation.metrics.base import CELLS, Box, Cells, Mask, Subject

# A cell changed when it differs by so much, of the full range, and so much more than most.
CHANGED = 0.06
CHANGED_TO_MEDIAN = 4.0
GROWN = 2  # cells
MOST = 0.25  # of the picture
MOST_TOGETHER = 0.5  # of the picture, for the edits of a shape


class ChainSubject:
    """What is known of one chain, which grows with its first trips.

    Of a round trip the footprint is that of the first edit; of a shape all edits have theirs,
    from the trip on in which each is first made.
    """

    def __init__(
        self,
        picture: SourcePicture | None,
        source: Picture,
        pair: EditPair,
        face: Box | None = None,
    ) -> None:
        self.source, self.pair = source, pair
        self.subject = chain_subject(picture, face=face)
        shapes = pair.cycle if pair.shape else ()
        self._edits = sum(len(shape.moves) for shape in shapes)

    def see(self, number: int, pictures: Sequence[Picture | None]) -> Subject:
        """What is known from trip `number` on, given the answers to its steps.

        The trips of the first cycle are to be seen in order; of later ones it needs nothing.
        `pictures` are what the trip began with, then the answers.
        """
        if not self.pair.shape:
            if number == 1 and (first := pictures[1]):
                where = footprint(self.source.image, first.image, self.pair)
                self.subject = Subject(self.subject.face, where)
        elif number <= len(self.pair.cycle):
            for move in self.pair.trip(number).moves:
                before, edited = pictures[move.before], pictures[move.edited]
                if before and edited:
                    self._add(before, edited, self.pair.of_move(number, move))
        return self.subject

    def _add(self, before: Picture, edited: Picture, pair: EditPair) -> None:
        most = min(MOST, MOST_TOGETHER / self._edits)
        where = footprint(before.image, edited.image, pair, most)
        known = self.subject.footprint
        if where is not None:
            self.subject = Subject(self.subject.face, where if known is None else known | where)


def chain_subject(
    picture: SourcePicture | None,
    source: Picture | None = None,
    first_edit: Picture | None = None,
    pair: EditPair | None = None,
    face: Box | None = None,
) -> Subject:
    """The annotated face of the suite's picture, and where the chain's first edit was made.

    `face` is that of a picture in no suite. The footprint is left out where the first edit
    was not kept.
    """
    if picture is not None:
        face = picture.annotations.face
    where = None
    if source is not None and first_edit is not None and pair is not None:
        where = footprint(source.image, first_edit.image, pair)
    return Subject(face, where)


def footprint(
    source: Image.Image, edited: Image.Image, pair: EditPair, most: float = MOST
) -> Mask | None:
    """The cells of the first forward edit, at most this share of all; None where it has no place, or none is found.

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
    return _at_most(grown, part, change, most)


def _at_most(grown: Mask, part: Mask, change: Cells, share: float) -> Mask:
    """The mask, cut down to this share of the picture where it is larger.

    What was grown goes first, then the cells that changed least.
    """
    most = int(share * grown.size)
    if grown.sum() <= most:
        return grown
    order = np.argsort(np.where(grown, change + part, -1), axis=None)[::-1]
    kept = np.zeros(grown.size, dtype=bool)
    kept[order[:most]] = True
    return kept.reshape(grown.shape)
