"""Checks of source images and cases, for the site's forms and the import command.

Each check returns its objections as sentences.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import imagehash
import numpy as np
from PIL import Image

from evaluation.content import operators, placement
from evaluation.content.sources import nearest_aspect
from evaluation.content.suites import EditPair, SuiteImage
from evaluation.errors import UserFacingError
from evaluation.images import EncodedImage, ImageError, blank_card

# The least MSE between an image and its mean colour (its blank card). In flatter images half-lives
# have no meaning (docs/method.md).
NEAR_FLAT = (10 / 255) ** 2
SMALLEST_SIDE = 256
# The largest share of an image that may be cropped away.
LARGEST_CUT = 0.35
# Resized, recompressed or brightened copies differ in at most this many of the 64 bits of their
# perceptual hashes; the tests check this on the shipped images.
NEAR_DUPLICATE_BITS = 6
# If an image correlates more than this with its mirrored copy, mirroring it cannot be seen.
SYMMETRIC = 0.9
ADDS = re.compile(r"(add|draw|give|hang|insert|lay|place|put|stand|write)\b", re.IGNORECASE)
TAKES_BACK = re.compile(
    r"\b(away|back|clear|delete|erase|off|remove|restore|revert|take|undo|without)\b", re.IGNORECASE
)


class Rejected(UserFacingError):
    """The benchmark does not accept an image; `reasons` are sentences."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__(" ".join(reasons))
        self.reasons = reasons


def check(
    data: bytes, *, licence: str, attribution: str = "", known: Mapping[str, str] | None = None
) -> EncodedImage:
    """Decode an image and check it. Raises Rejected with every reason.

    `known` maps names of existing images to their fingerprints.
    """
    try:
        image = EncodedImage.from_bytes(data)
    except ImageError as error:
        raise Rejected([_sentence(str(error))]) from error
    reasons = [
        *_unlicensed(licence, attribution),
        *_badly_sized(image.decoded),
        *_near_flat(image.decoded),
        *_duplicates(image.decoded, known or {}),
    ]
    if reasons:
        raise Rejected(reasons)
    return image


def doubt_about(pair: EditPair) -> str:
    """Return a warning if the backward prompt does not seem to undo the forward prompt."""
    if pair.change != "local" or not ADDS.match(pair.forward) or TAKES_BACK.search(pair.backward):
        return ""
    return (
        "The forward prompt adds something, but the backward prompt does not remove it: "
        f"“{pair.forward}” then “{pair.backward}”. Reword the backward prompt as “Remove …”."
    )


def fingerprint(image: Image.Image) -> str:
    """Return a perceptual hash of 64 bits in hex; hashes of similar images differ in few bits."""
    return str(imagehash.phash(image))


def distance(one: str, other: str) -> int:
    """Return the number of bits in which two fingerprints differ."""
    return (int(one, 16) ^ int(other, 16)).bit_count()


def flatness_error(image: Image.Image) -> float:
    """Return the MSE between an image and its blank card, for sRGB in [0, 1]."""
    pixels = np.asarray(image, dtype=np.float64) / 255
    card = np.asarray(blank_card(image), dtype=np.float64) / 255
    return float(np.mean((pixels - card) ** 2))


def _centred(image: Image.Image) -> np.ndarray:
    pixels = np.asarray(image, dtype=np.float32)
    return pixels - pixels.mean(dtype=np.float64)


def symmetries(image: Image.Image) -> frozenset[str]:
    """Return the exact operators (flips and turns) that leave the image nearly unchanged."""
    names = set()
    # Moving pixels changes neither mean nor variance, so both are computed once.
    centred = _centred(image)
    variance = float(np.vdot(centred, centred))
    for name in operators.OPERATORS:
        if name in operators.QUARTER_TURNS and image.width != image.height:
            continue
        moved = np.asarray(operators.apply(name, image), dtype=np.float32)
        if not variance or float(np.vdot(centred, moved)) / variance > SYMMETRIC:
            names.add(name)
    return frozenset(names)


def misfits(image: SuiteImage, pair: EditPair, symmetric_under: Collection[str] = ()) -> list[str]:
    """Return the reasons why the pair cannot be played on the image, if any.

    `symmetric_under` is the result of `symmetries` for the image.
    """
    reasons = []
    if pair.kinds and image.kind not in pair.kinds:
        wanted = " or ".join(pair.kinds)
        reasons.append(f"The pair is for images of kind {wanted}; this is of kind {image.kind}.")
    contained = {_label(name) for name in image.contains}
    reasons += [
        f"The image contains “{name}”, which must be absent for this pair."
        for name in pair.absent
        if _label(name) in contained
    ]
    reasons += [
        f"The image does not contain “{name}”, which this pair needs."
        for name in pair.present
        if _label(name) not in contained
    ]
    if pair.place:
        missing = placement.misfit(
            pair.place, pair.object, image.annotations, image.width, image.height
        )
        reasons += [missing] if missing else []
    for step in pair.steps:
        if step.object in placement.THINGS:
            place = placement.THINGS[step.object].place
            missing = placement.misfit(
                place, step.object, image.annotations, image.width, image.height
            )
            reasons += [missing] if missing else []
    if pair.operator in operators.QUARTER_TURNS and image.width != image.height:
        reasons.append(
            f"A quarter turn changes the shape of an image of {image.width} x {image.height} "
            "pixels; only square images can be turned."
        )
    if pair.operator and pair.operator in symmetric_under:
        reasons.append(
            f"The image looks the same after {pair.operator.replace('_', ' ')}, "
            "so the edit could not be seen."
        )
    return reasons


def _unlicensed(licence: str, attribution: str) -> list[str]:
    reasons = []
    if not licence.strip() or _label(licence) in ("unknown", "none", "all rights reserved"):
        reasons.append("The image needs a licence that allows showing and editing it.")
    elif not attribution.strip() and _label(licence).startswith("cc-by"):
        reasons.append(f"The licence {licence.strip()} requires an attribution; add one.")
    return reasons


def _badly_sized(image: Image.Image) -> list[str]:
    if min(image.size) < SMALLEST_SIDE:
        return [
            f"The image is too small: {image.width} x {image.height} pixels; "
            f"both sides need at least {SMALLEST_SIDE}."
        ]
    width, height = nearest_aspect(*image.size)
    left = min(image.width / image.height, width / height) / max(
        image.width / image.height, width / height
    )
    if 1 - left > LARGEST_CUT:
        return [
            f"The image is too elongated: cropping {image.width} x {image.height} pixels to "
            f"{width}:{height} would cut away {1 - left:.0%} of it."
        ]
    return []


def _near_flat(image: Image.Image) -> list[str]:
    error = flatness_error(image)
    if error < NEAR_FLAT:
        return [
            f"The image is nearly one colour: it differs from its mean colour by only "
            f"{255 * error**0.5:.1f} of 255 levels; at least 10 are needed."
        ]
    return []


def _duplicates(image: Image.Image, known: Mapping[str, str]) -> list[str]:
    mine = fingerprint(image)
    near = [name for name, other in known.items() if distance(mine, other) <= NEAR_DUPLICATE_BITS]
    return [f"The image is a duplicate or near-duplicate of {name}." for name in near]


def _label(text: str) -> str:
    return " ".join(text.lower().replace("_", " ").split())


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
