"""What is checked of every line of a bundle, and of every picture in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from evaluation.bundle import format as bundles
from evaluation.bundle.checks import DIFFERENT, EQUAL, NOT_CHECKED, Check, compared
from evaluation.bundle.format import Bundle, FileRow
from evaluation.images import ImageError, Picture

NO_PICTURES = "no pictures in the bundle"


def digest_check(line: str, row: Mapping[str, Any]) -> Check:
    if row["digest"] == bundles.digest(row):
        return Check(line, "digest", EQUAL)
    return Check(line, "digest", DIFFERENT, "the line was altered after it was written")


def picture_checks(
    bundle: Bundle, line: str, row: FileRow | None
) -> tuple[Picture | None, list[Check]]:
    """The picture where it is here and sound, and what was checked of its file."""
    if row is None:
        return None, [Check(line, "picture", NOT_CHECKED, "the bundle does not name it")]
    data = bundle.picture(row.sha256)
    if data is None and not bundle.document.pictures:
        return None, [Check(line, "picture", NOT_CHECKED, NO_PICTURES)]
    if data is None:
        why = f"{bundles.picture_name(row.sha256, row.mime)} is not in the bundle"
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
