"""Encode and decode the images of hosted models: base64, data URIs, bytes."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from evaluation.editors.failures import bad_answer
from evaluation.images import MAX_BYTES, EncodedImage, ImageError

#: Note on an answer whose stated type is wrong. The image is accepted nevertheless.
WRONG_TYPE = "wrong_type"
#: Note with the image's address at the provider. Never public: the address may be signed.
IMAGE_ADDRESS = "kept_at"


def type_note(stated: str, image: EncodedImage) -> dict[str, str]:
    """Return a note if the stated MIME type differs from the image's actual type."""
    stated = stated.partition(";")[0].strip().lower()
    stated = {"image/jpg": "image/jpeg"}.get(stated, stated)
    if not stated.startswith("image/") or stated == image.mime:
        return {}
    return {WRONG_TYPE: f"stated {stated[:60]}, sent {image.mime}"}


def decode_answer(data: bytes) -> EncodedImage:
    try:
        return EncodedImage.from_bytes(data)
    except ImageError as error:
        head = data[:200].lstrip().lower()
        if head.startswith((b"<!doctype html", b"<html")):
            raise bad_answer("expected an image, got text/html") from None
        raise bad_answer(f"the answer is not a usable image: {error}") from error


def from_base64(text: Any) -> bytes:
    """Decode base64, with or without the prefix of a data URI."""
    if not isinstance(text, str) or not text:
        raise bad_answer("the answer contains no image")
    if text.startswith("data:"):
        text = text.partition(",")[2]
    if len(text) > MAX_BYTES * 4 // 3 + 4:
        raise bad_answer(f"the image is larger than {MAX_BYTES // 2**20} MB")
    try:
        return binascii.a2b_base64(text)
    except (binascii.Error, ValueError) as error:
        raise bad_answer(f"the image is not valid base64: {error}") from error


def data_uri(image: EncodedImage) -> str:
    return "data:image/png;base64," + to_base64(image)


def to_base64(image: EncodedImage) -> str:
    return base64.b64encode(image.png()).decode("ascii")
