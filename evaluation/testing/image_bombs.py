"""Small image files whose metadata takes hundreds of megabytes in memory."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image


def many_parts(kind: str, count: int) -> bytes:
    """Return an image with `count` empty chunks or segments before its pixels."""
    file = io.BytesIO()
    Image.new("RGB", (128, 128), (90, 120, 30)).save(file, kind)
    data = file.getvalue()
    if kind == "JPEG":
        return data[:2] + b"\xff\xe1\0\2" * count + data[2:]
    if kind == "PNG":
        return data[:33] + _png_chunk(b"prVt", b"") * count + data[33:]
    side = struct.pack("<I", 127)[:3]
    extended = b"VP8X" + struct.pack("<I4x", 10) + side + side
    body = b"WEBP" + extended + data[12:] + b"ABCD\0\0\0\0" * count
    return b"RIFF" + struct.pack("<I", len(body)) + body


def many_texts(count: int) -> bytes:
    """Return a PNG with `count` texts of a megabyte, each compressed to a kilobyte."""
    text = zlib.compress(("\U0001f600" + "a" * (2**20 - 8)).encode(), 9)
    texts = [_png_chunk(b"iTXt", b"k%03d\0\1\0\0\0%s" % (n, text)) for n in range(count)]
    data = many_parts("PNG", 0)
    return data[:33] + b"".join(texts) + data[33:]


def large_profile(segments: int) -> bytes:
    """Return a JPEG whose colour profile has this many segments of 64 KB."""
    data = many_parts("JPEG", 0)
    profile = [
        b"\xff\xe2\xff\xffICC_PROFILE\0" + bytes([n, segments]) + bytes(65_519)
        for n in range(1, segments + 1)
    ]
    return data[:2] + b"".join(profile) + data[2:]


def broken_exif(count: int) -> bytes:
    """Return a PNG whose EXIF has `count` entries, each with a stated length beyond the file's."""
    entries = [struct.pack("<HHII", tag, 7, 0x7FFFFFFF, 8) for tag in range(count)]
    exif = b"II*\0\x08\0\0\0" + struct.pack("<H", count) + b"".join(entries) + bytes(4)
    data = many_parts("PNG", 0)
    return data[:33] + _png_chunk(b"eXIf", exif) + data[33:]


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
