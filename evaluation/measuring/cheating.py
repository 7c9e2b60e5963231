"""Signs of dishonest answers: hints for admins, without effect on ranks.

A model may recognise the backward prompt and return a stored copy of the source. Or it may give
one answer to every case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import imagehash
import numpy as np

from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage, fit
from evaluation.metrics.psnr import mse

# Two 8-bit images with a smaller mean squared error (full range 1) are one image saved twice. The
# limit is 48 dB; a JPEG of quality 95 gives about 40 dB.
SAME = 10**-4.8
# With a larger error (below 30 dB), an image has lost detail that no edit can restore. If the error
# then falls to less than JUMP times its value, the model did not get there by editing.
DAMAGED = 10**-3.0
JUMP = 0.25
# Two hashes of 256 bits belong to copies of one image if they differ in at most this many bits. In
# the 105 shipped images, JPEG 75, WebP 80 and resizing by 0.25-1.5 change up to 15 bits; JPEG 30
# and a change of brightness by 10 % up to 33. Two different images differ in 59 bits or more.
MAX_BITS = 32


@dataclass(frozen=True)
class Sign:
    """One suspicious answer: the kind of sign and the answer's position in the chain."""

    name: str
    number: int
    direction: str
    detail: str


@dataclass(frozen=True)
class EditErrors:
    """The mean squared errors of one answer to its input and, if backward, to the source."""

    number: int
    direction: str
    to_input: float
    to_source: float = 0.0


def signs(errors: Iterable[EditErrors], pair: EditPair) -> list[Sign]:
    """Return the suspicious answers of a chain, given the errors of all answers.

    Answers to identity, exact and operator pairs are never suspicious: even honest answers may
    equal the input or the source in every pixel.
    """
    if pair.change in ("none", "exact", "operator"):
        return []
    suspicious = []
    last_error = 0.0
    for edit in errors:

        def sign(name: str, detail: str, edit: EditErrors = edit) -> None:
            suspicious.append(Sign(name, edit.number, edit.direction, detail))

        if edit.to_input <= SAME:
            sign("returned its input", "the answer is identical to the image that was sent")
        if edit.direction == "backward":
            error = edit.to_source
            # After one trip a good editor may be this close; after more trips no honest editor is.
            if error <= SAME and edit.number > 1:
                sign("returned the source", f"trip {edit.number} returned the source image itself")
            elif last_error > DAMAGED and error < JUMP * last_error:
                sign(
                    "jumped back",
                    f"the error against the source fell from {last_error:.4f} to {error:.4f}",
                )
            last_error = error
    return suspicious


def repeated_answers(answers: Mapping[str, Iterable[EncodedImage]]) -> list[tuple[str, str]]:
    """Return the pairs of cases (by name) with nearly identical answers.

    Pass only one case per source, since honest answers to cases that share a source may be equal.
    """
    hashes = {
        case: [imagehash.dhash(image.decoded, hash_size=16) for image in images]
        for case, images in answers.items()
    }
    return [
        (first, second)
        for first, second in combinations(sorted(hashes), 2)
        if any(a - b <= MAX_BITS for a in hashes[first] for b in hashes[second])
    ]


def mean_square(a: EncodedImage, b: EncodedImage) -> float:
    """Return the mean squared error of two images; the full range is 1."""
    if a.sha256 == b.sha256:
        return 0.0
    return mse(np.asarray(a.decoded), np.asarray(fit(b.decoded, a.size)))
