"""Images as hosted models send and take them: base64, data URIs, bytes."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from evaluation.editors.failures import bad_answer
from evaluation.images import MAX_BYTES, ImageError, Picture

#: Note of an answer whose stated type is wrong; its image is accepted nevertheless.
WRONG_TYPE = "wrong_type"
#: Note of the provider's address of the image; never public, since it may be signed.
KEPT_AT = "kept_at"


def type_note(stated: str, picture: Picture) -> dict[str, str]:
    """Return a note if the stated MIME type is not that of the image's first bytes."""
    stated = stated.partition(";")[0].strip().lower()
    stated = {"image/jpg": "image/jpeg"}.get(stated, stated)
    if not stated.startswith("image/") or stated == picture.mime:
        return {}
    return {WRONG_TYPE: f"said {stated[:60]}, sent {picture.mime}"}


def decoded(data: bytes) -> Picture:
    try:
        return Picture.from_bytes(data)
    except ImageError as error:
        head = data[:200].lstrip().lower()
        if head.startswith((b"<!doctype html", b"<html")):
            raise bad_answer("expected a picture, got text/html") from None
        raise bad_answer(f"the answer is not a usable picture: {error}") from error


def from_base64(text: Any) -> bytes:
    """Return the bytes of a base64 text, without a data URI's prefix."""
    if not isinstance(text, str) or not text:
        raise bad_answer("the answer holds no picture")
    if text.startswith("data:"):
        text = text.partition(",")[2]
    if len(text) > MAX_BYTES * 4 // 3 + 4:
        raise bad_answer(f"the picture is larger than {MAX_BYTES // 2**20} MB")
    try:
        return binascii.a2b_base64(text)
    except (binascii.Error, ValueError) as error:
        raise bad_answer(f"the picture is not valid base64: {error}") from error


def data_uri(picture: Picture) -> str:
    return "data:image/png;base64," + to_base64(picture)


def to_base64(picture: Picture) -> str:
    return base64.b64encode(picture.png()).decode("ascii")
