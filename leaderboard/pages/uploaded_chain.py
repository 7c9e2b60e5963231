"""Bring your own chain: which upload is which picture, and what came out."""

from __future__ import annotations

import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import transaction

from evaluation.images import ImageError, Picture
from leaderboard import queue
from leaderboard.models import StoredImage, UploadedChain, UploadedPicture

MAX_PICTURES = 101
MAX_PICTURE_BYTES = 12 * 2**20
MAX_TOTAL_BYTES = 120 * 2**20
#: Of all pictures together: decoded, the worker has them in memory at once.
MAX_TOTAL_PIXELS = 300_000_000
MAX_NAME = 100
NAMED = re.compile(r"^I([0-9]{1,3})_(source|forward|backward)\b", re.IGNORECASE)

#: What zipfile and the libraries below it raise for a damaged or made-up archive.
UNPACKABLE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
    *(OSError, ValueError, NotImplementedError, RuntimeError),
)


class Unusable(ValueError):
    """An upload that is not a chain; written for people."""


@dataclass(frozen=True)
class Upload:
    """A file by the name its sender gave it; the name is never used on disk."""

    name: str
    data: bytes


def unpack(name: str, data: bytes, room: int = MAX_TOTAL_BYTES) -> list[Upload]:
    """The files of a zip, `room` bytes in all, none larger than a picture may be."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except UNPACKABLE:
        raise Unusable(f"{name} is not a zip file.") from None
    entries = [
        e for e in archive.infolist() if not e.is_dir() and not e.filename.startswith("__MACOSX")
    ]
    if len(entries) > MAX_PICTURES:
        raise Unusable(f"{name} holds {len(entries)} files; at most {MAX_PICTURES} are taken.")
    files, total = [], 0
    for entry in entries:
        title = entry.filename.rsplit("/", 1)[-1][-MAX_NAME:]
        if entry.flag_bits & 1:
            raise Unusable(f"{title} in {name} is encrypted.")
        try:
            with archive.open(entry) as file:
                # What the entry claims of its size is not believed.
                content = file.read(MAX_PICTURE_BYTES + 1)
        except UNPACKABLE:
            raise Unusable(f"{title} in {name} cannot be unpacked.") from None
        total += len(content)
        if len(content) > MAX_PICTURE_BYTES or total > room:
            raise Unusable(f"{title} in {name} is too large.")
        files.append(Upload(title, content))
    return files


def arrange(files: Iterable[Upload]) -> list[tuple[int, bool, Upload]]:
    """(trip, is it a forward picture, file): by names like I1_forward.png, else in sorted order."""
    files = list(files)
    if len(files) < 2:
        raise Unusable("A chain needs its source and at least one return.")
    if len(files) > MAX_PICTURES:
        raise Unusable(f"{len(files)} pictures; at most {MAX_PICTURES} are taken.")
    matched = [NAMED.match(file.name) for file in files]
    if not all(matched):
        ordered = sorted(files, key=lambda file: natural(file.name))
        return [(number, False, file) for number, file in enumerate(ordered)]
    found: dict[tuple[int, bool], Upload] = {}
    for match, file in zip(matched, files, strict=True):
        number, role = int(match[1]), match[2].lower()  # type: ignore[index]
        place = (0, False) if role == "source" else (number, role == "forward")
        if place in found or (place[0] == 0) != (role == "source"):
            raise Unusable(f"{file.name} is there twice, or is numbered from 0.")
        found[place] = file
    returns = sorted(number for number, forward in found if not forward)
    if returns != list(range(len(returns))):
        missing = next(n for n in range(len(returns) + 1) if n not in returns)
        raise Unusable(
            "I0_source is missing." if missing == 0 else f"I{missing}_backward is missing."
        )
    if extra := [n for n, forward in found if forward and n not in returns]:
        raise Unusable(f"I{extra[0]}_forward has no I{extra[0]}_backward.")
    return [(number, forward, file) for (number, forward), file in sorted(found.items())]


def natural(name: str) -> list[Any]:
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if part.isascii() and part.isdigit() else part.casefold() for part in parts]


def over_quota(address: str | None) -> str | None:
    """That this address used up its day, in words; None when there is room."""
    limit = settings.UPLOADED_CHAINS_PER_DAY
    count = UploadedChain.objects.kept().filter(remote_address=address).count()
    if count < limit:
        return None
    return (
        f"{count} chains came from your network address in the last 24 hours; the limit is "
        f"{limit}. On your own machine there is none: convergebench score-chain."
    )


def keep(files: Iterable[Upload], *, name: str, remote_address: str | None) -> UploadedChain:
    """Check every picture, then store the chain: all or nothing."""
    pictures, pixels = [], 0
    for number, forward, file in arrange(files):
        try:
            picture = Picture.from_bytes(file.data, max_bytes=MAX_PICTURE_BYTES)
        except ImageError as error:
            raise Unusable(f"{file.name}: {error}.") from None
        pixels += picture.width * picture.height
        if pixels > MAX_TOTAL_PIXELS:
            raise Unusable(f"More than {MAX_TOTAL_PIXELS // 10**6} megapixels in all.")
        # A copy that is not decoded: the web process has only one at a time in memory.
        pictures.append((number, forward, replace(picture)))
    source = pictures[0][2]
    if min(source.size) < 64 or source.width * source.height > 4_500_000:
        raise Unusable(
            f"The source is {source.width} x {source.height} pixels; both sides need at least 64, "
            "and all of it at most 4.5 megapixels."
        )
    stored = [StoredImage.objects.write_bytes(picture) for *_, picture in pictures]
    with transaction.atomic():
        StoredImage.objects.upsert(stored)
        chain = UploadedChain.objects.create(name=name, remote_address=remote_address)
        UploadedPicture.objects.bulk_create(
            UploadedPicture(chain=chain, number=number, forward=forward, stored=row)
            for (number, forward, _), row in zip(pictures, stored, strict=True)
        )
    queue.enqueue(chain.pk, queue.SCORE_UPLOADED, queue.GPU)
    return chain
