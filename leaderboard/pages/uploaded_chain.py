"""Bring your own chain: which upload is which picture, and what came out."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.conf import settings
from django.db import transaction

from evaluation.content.chain_files import ChainFilesError, arranged
from evaluation.images import ImageError, Picture
from leaderboard import queue
from leaderboard.models import StoredImage, UploadedChain, UploadedPicture

MAX_PICTURES = 101
MAX_PICTURE_BYTES = 12 * 2**20
MAX_TOTAL_BYTES = 120 * 2**20
#: Of all pictures together: decoded, the worker has them in memory at once.
MAX_TOTAL_PIXELS = 300_000_000
MAX_NAME = 100

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
    if len(files) > MAX_PICTURES:
        raise Unusable(f"{len(files)} pictures; at most {MAX_PICTURES} are taken.")
    try:
        chain = arranged(files, lambda file: file.name)
    except ChainFilesError as error:
        raise Unusable(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
    found = [(0, False, chain.source)]
    for number, (forward, backward) in enumerate(chain.trips, start=1):
        if forward:
            found.append((number, True, forward))
        found.append((number, False, backward))
    return found


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
