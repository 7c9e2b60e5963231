"""The checks of a bundle: a stated value beside the one that was computed here."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.bundle import document
from evaluation.bundle.document import Bundle
from evaluation.images import EncodedImage, ImageError
from evaluation.metrics.networks.base import HALF_TOLERANCE
from evaluation.records import FileRecord

EQUAL, DIFFERENT, NOT_CHECKED = "equal", "different", "not checked"
NO_IMAGES = "no images in the bundle"
#: Tolerances of numbers: relative, absolute.
EXACT = (1e-9, 1e-9)
CLASSICAL = (1e-6, 1e-9)
NETWORK = (1e-3, 1e-5)
# Scored on a GPU, or recomputed on one.
HALF = (1e-2, HALF_TOLERANCE)
# Witnesses are networks, and their amounts are stored with five digits.
WITNESSED = (1e-3, 2e-5)
# No-reference metrics search a shape on a grid: a tiny difference selects the next point.
QUALITY = (1e-3, 0.05)
# Registration is iterative and ends in a slightly different place on another processor.
REGISTERED = (1e-2, 1e-3)


@dataclass(frozen=True)
class Check:
    """One checked value: its line, its name, and the verdict."""

    line: str
    what: str
    verdict: str
    detail: str = ""

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.verdict:11}  {self.line}, {self.what}{detail}"


def verdict(checks: Mapping[str, int]) -> bool | None:
    """Return True if all checks are equal, None if some were not made, else False.

    `checks` counts the checks by verdict.
    """
    if checks.get(DIFFERENT):
        return False
    return None if checks.get(NOT_CHECKED) else True


def compared(
    line: str, what: str, stated: Any, found: Any, tolerance: tuple[float, float] = EXACT
) -> Check:
    """Return a check that is equal, or that names the first difference."""
    apart = _apart(stated, found, tolerance)
    return Check(line, what, DIFFERENT, apart) if apart else Check(line, what, EQUAL)


def _apart(stated: Any, found: Any, tolerance: tuple[float, float], place: str = "") -> str:
    """Describe the first difference of two values; empty if there is none."""
    if isinstance(stated, dict) and isinstance(found, dict):
        for key in sorted(stated.keys() | found.keys(), key=str):
            inside = f"{place}.{key}" if place else str(key)
            if key not in stated or key not in found:
                return f"{inside} is {'not computed here' if key in stated else 'missing'}"
            if apart := _apart(stated[key], found[key], tolerance, inside):
                return apart
        return ""
    if isinstance(stated, list) and isinstance(found, list) and len(stated) == len(found):
        for index, (left, right) in enumerate(zip(stated, found, strict=True)):
            if apart := _apart(left, right, tolerance, f"{place}[{index}]"):
                return apart
        return ""
    relative, absolute = tolerance
    if _is_number(stated) and _is_number(found):
        if math.isclose(stated, found, rel_tol=relative, abs_tol=absolute):
            return ""
    elif type(stated) is type(found) and stated == found:
        return ""
    where = f"{place} " if place else ""
    return f"{where}states {_short(stated)}, computed {_short(found)}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def digest_check(line: str, row: Mapping[str, Any]) -> Check:
    """Compare a raw line with the digest that it carries."""
    if row.get("digest") == document.digest(row):
        return Check(line, "digest", EQUAL)
    return Check(line, "digest", DIFFERENT, "the line was changed after it was written")


def image_checks(
    bundle: Bundle, line: str, row: FileRecord | None
) -> tuple[EncodedImage | None, list[Check]]:
    """Return the image, None if it is missing or damaged, and the checks of its file."""
    if row is None:
        return None, [Check(line, "image", NOT_CHECKED, "the bundle does not list it")]
    data = bundle.image(row.sha256)
    if data is None and not bundle.document.images:
        return None, [Check(line, "image", NOT_CHECKED, NO_IMAGES)]
    if data is None:
        why = f"{document.image_name(row.sha256, row.mime)} is not in the bundle"
        return None, [Check(line, "image", DIFFERENT, why)]
    hashed = compared(line, "hash", row.sha256, hashlib.sha256(data).hexdigest())
    if hashed.verdict == DIFFERENT:
        return None, [hashed]
    try:
        image = EncodedImage.from_bytes(data, max_pixels=bundle.max_pixels)
    except ImageError as error:
        return None, [hashed, Check(line, "image", DIFFERENT, str(error))]
    stated = [row.mime, row.width, row.height, row.bytes]
    actual = [image.mime, image.width, image.height, len(data)]
    return image, [hashed, compared(line, "type and size", stated, actual)]
