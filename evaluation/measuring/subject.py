"""What is known of a chain's pictures beside their pixels, for the metrics that need it."""

from __future__ import annotations

from evaluation.content.suites import EditPair, SourcePicture
from evaluation.images import Picture
from evaluation.measuring.footprint import footprint
from evaluation.metrics.base import Box, Subject


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
