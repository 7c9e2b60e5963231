"""Checks of a bundle: each compares a stated value with one that is computed again."""

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
#: Tolerances (relative, absolute): of exact numbers, and of metrics without and with a network.
EXACT = (1e-9, 1e-9)
CLASSICAL = (1e-6, 1e-9)
NETWORK = (1e-3, 1e-5)
# Used if the stated or the recomputed score was computed in half precision on a GPU.
HALF = (1e-2, HALF_TOLERANCE)
# Witnesses (automatic checks of whether an edit was made) are networks. The amounts that they see
# are stored with five digits.
WITNESSED = (1e-3, 2e-5)
# No-reference metrics fit a parameter on a grid: a tiny difference may select another grid point.
QUALITY = (1e-3, 0.05)
# Registration is iterative and gives slightly different results on different processors.
REGISTERED = (1e-2, 1e-3)


@dataclass(frozen=True)
class Check:
    """The verdict on one value: `line` names the line of the bundle, `what` the value in it."""

    line: str
    what: str
    verdict: str
    detail: str = ""

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.verdict:11}  {self.line}, {self.what}{detail}"


def verdict(checks: Mapping[str, int]) -> bool | None:
    """Return False if a check found a difference, None if a value was not checked, else True.

    `checks` has the number of checks by verdict.
    """
    if checks.get(DIFFERENT):
        return False
    return None if checks.get(NOT_CHECKED) else True


def compared(
    line: str, what: str, stated: Any, computed: Any, tolerance: tuple[float, float] = EXACT
) -> Check:
    """Compare a stated value with the computed one. The check's detail is the first difference."""
    difference = _difference(stated, computed, tolerance)
    return Check(line, what, DIFFERENT, difference) if difference else Check(line, what, EQUAL)


def _difference(stated: Any, computed: Any, tolerance: tuple[float, float], path: str = "") -> str:
    """Describe the first difference of two values; "" if there is none."""
    if isinstance(stated, dict) and isinstance(computed, dict):
        for key in sorted(stated.keys() | computed.keys(), key=str):
            inside = f"{path}.{key}" if path else str(key)
            if key not in stated or key not in computed:
                return f"{inside} is {'not computed here' if key in stated else 'missing'}"
            if difference := _difference(stated[key], computed[key], tolerance, inside):
                return difference
        return ""
    if isinstance(stated, list) and isinstance(computed, list) and len(stated) == len(computed):
        for index, (left, right) in enumerate(zip(stated, computed, strict=True)):
            if difference := _difference(left, right, tolerance, f"{path}[{index}]"):
                return difference
        return ""
    relative, absolute = tolerance
    if _is_number(stated) and _is_number(computed):
        if math.isclose(stated, computed, rel_tol=relative, abs_tol=absolute):
            return ""
    elif type(stated) is type(computed) and stated == computed:
        return ""
    where = f"{path} " if path else ""
    return f"{where}states {_short(stated)}, computed {_short(computed)}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def digest_check(line: str, row: Mapping[str, Any]) -> Check:
    """Check that a raw line has the digest that it states."""
    if row.get("digest") == document.digest(row):
        return Check(line, "digest", EQUAL)
    return Check(line, "digest", DIFFERENT, "the line was changed after it was written")


def image_checks(
    bundle: Bundle, line: str, row: FileRecord | None
) -> tuple[EncodedImage | None, list[Check]]:
    """Return the image (None if it is missing or damaged) and the checks of its file."""
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
