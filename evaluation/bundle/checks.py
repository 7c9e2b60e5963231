"""The checks of a bundle: a stated value beside the one that was computed here."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.bundle import document
from evaluation.bundle.document import Bundle
from evaluation.images import ImageError, Picture
from evaluation.metrics.networks.base import HALF_TOLERANCE
from evaluation.records import FileRecord

EQUAL, DIFFERENT, NOT_CHECKED = "equal", "different", "not checked"
NO_PICTURES = "no pictures in the bundle"
#: How far a number may be off: of its size, and at all.
EXACT = (1e-9, 1e-9)
CLASSICAL = (1e-6, 1e-9)
NETWORK = (1e-3, 1e-5)
# Scored on a GPU, or recomputed on one.
HALF = (1e-2, HALF_TOLERANCE)
# Witnesses are networks, and their amounts are kept with five digits.
WITNESSED = (1e-3, 2e-5)
# No-reference metrics look for a shape on a grid: a hair elsewhere, and it is the next one.
QUALITY = (1e-3, 0.05)
# Registration climbs a hill step by step, and ends a little elsewhere on another processor.
REGISTERED = (1e-2, 1e-3)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: in which line, what, and how it came out."""

    line: str
    what: str
    verdict: str
    detail: str = ""

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.verdict:11}  {self.line}, {self.what}{detail}"


def verdict(checks: Mapping[str, int]) -> bool | None:
    """From how many checks came out how: True = all equal, None = some could not be made."""
    if checks.get(DIFFERENT):
        return False
    return None if checks.get(NOT_CHECKED) else True


def compared(
    line: str, what: str, stated: Any, found: Any, tolerance: tuple[float, float] = EXACT
) -> Check:
    """One check: equal, or where the two part first."""
    apart = _apart(stated, found, tolerance)
    return Check(line, what, DIFFERENT, apart) if apart else Check(line, what, EQUAL)


def _apart(stated: Any, found: Any, tolerance: tuple[float, float], place: str = "") -> str:
    """Where two values differ first, in words; empty when nowhere."""
    if isinstance(stated, dict) and isinstance(found, dict):
        for key in sorted(stated.keys() | found.keys(), key=str):
            inside = f"{place}.{key}" if place else str(key)
            if key not in stated or key not in found:
                return f"{inside} is {'not computed here' if key in stated else 'missing'}"
            if apart := _apart(stated[key], found[key], tolerance, inside):
                return apart
        return ""
    if isinstance(stated, list) and isinstance(found, list) and len(stated) == len(found):
        for index, (one, other) in enumerate(zip(stated, found, strict=True)):
            if apart := _apart(one, other, tolerance, f"{place}[{index}]"):
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
    return Check(line, "digest", DIFFERENT, "the line was altered after it was written")


def picture_checks(
    bundle: Bundle, line: str, row: FileRecord | None
) -> tuple[Picture | None, list[Check]]:
    """Return the image, None if it is missing or damaged, and the checks of its file."""
    if row is None:
        return None, [Check(line, "picture", NOT_CHECKED, "the bundle does not name it")]
    data = bundle.picture(row.sha256)
    if data is None and not bundle.document.pictures:
        return None, [Check(line, "picture", NOT_CHECKED, NO_PICTURES)]
    if data is None:
        why = f"{document.picture_name(row.sha256, row.mime)} is not in the bundle"
        return None, [Check(line, "picture", DIFFERENT, why)]
    hashed = compared(line, "hash", row.sha256, hashlib.sha256(data).hexdigest())
    if hashed.verdict == DIFFERENT:
        return None, [hashed]
    try:
        picture = Picture.from_bytes(data, max_pixels=bundle.max_pixels)
    except ImageError as error:
        return None, [hashed, Check(line, "picture", DIFFERENT, str(error))]
    stated = [row.mime, row.width, row.height, row.bytes]
    found = [picture.mime, picture.width, picture.height, len(data)]
    return picture, [hashed, compared(line, "type and size", stated, found)]
