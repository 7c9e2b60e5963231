"""Uploaded chains: unpacking, order of the files, and storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import IO

from django.conf import settings
from django.db import transaction

from evaluation.content import archives
from evaluation.content.archives import ArchiveError
from evaluation.content.chain_files import ChainFilesError, arranged
from evaluation.images import ImageError, Picture
from leaderboard import job_queue
from leaderboard.models import StoredImage, UploadedChain, UploadedPicture, Use
from leaderboard.models.uploads import MAX_PICTURE_PIXELS
from leaderboard.visitors import network_of

MAX_PICTURES = 101
MAX_PICTURE_BYTES = 12 * 2**20
MAX_TOTAL_BYTES = 120 * 2**20
MAX_TOTAL_PIXELS = 300_000_000
MAX_NAME = 100
#: Size of a zip's directory: enough for slightly more entries than are accepted.
MAX_DIRECTORY = 2**18


class Unusable(ValueError):
    """An upload that is not a chain; the message is shown to the visitor."""


@dataclass(frozen=True)
class Upload:
    """A file by its uploaded name, which is never used on disk.

    Its bytes are read when needed: a web process holds one image in memory at a time.
    """

    name: str
    size: int
    read: Callable[[], bytes]


def unpack(name: str, file: IO[bytes], room: int = MAX_TOTAL_BYTES) -> list[Upload]:
    """Return the files of a zip, without reading them.

    Raises Unusable if they exceed `room` bytes in all, or one exceeds the limit of an image.
    """
    try:
        archive = archives.open_archive(file, max_directory=MAX_DIRECTORY)
    except ArchiveError as error:
        raise Unusable(f"{name} is not a zip file that can be read: {error}.") from None
    entries = [
        e for e in archive.infolist() if not e.is_dir() and not e.filename.startswith("__MACOSX")
    ]
    if len(entries) > MAX_PICTURES:
        raise Unusable(f"{name} holds {len(entries)} files; at most {MAX_PICTURES} are taken.")
    if sum(entry.file_size for entry in entries) > room:
        raise Unusable(f"{name} is too large: more than {room // 2**20} MB unpacked.")
    uploads = []
    for entry in entries:
        title = entry.filename.rsplit("/", 1)[-1][-MAX_NAME:]
        try:
            archives.check_entry(entry, f"{title} in {name}", MAX_PICTURE_BYTES)
        except ArchiveError as error:
            raise Unusable(f"{error}.") from None
        uploads.append(
            Upload(
                title,
                entry.file_size,
                partial(archives.content, archive, entry, f"{title} in {name}", MAX_PICTURE_BYTES),
            )
        )
    return uploads


def arrange(files: Iterable[Upload]) -> list[tuple[int, bool, Upload]]:
    """Return (trip, is forward, file), by names like I1_forward.png or sorted.

    Raises Unusable if the files are no chain.
    """
    files = list(files)
    if len(files) > MAX_PICTURES:
        raise Unusable(f"{len(files)} pictures; at most {MAX_PICTURES} are taken.")
    try:
        chain = arranged(files, lambda file: file.name)
    except ChainFilesError as error:
        raise Unusable(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
    rows = [(0, False, chain.source)]
    for number, (forward, backward) in enumerate(chain.trips, start=1):
        if forward:
            rows.append((number, True, forward))
        rows.append((number, False, backward))
    return rows


def take(address: str | None) -> str | None:
    """Count a chain of this address; return a message if its limit is reached."""
    limit = settings.UPLOADED_CHAINS_PER_DAY
    network = network_of(address) if address else "unknown"
    if not Use.objects.take("uploaded chain", {"your network address": network}, limit):
        return None
    return (
        f"{limit} chains came from your network address in the last 24 hours; the limit is "
        f"{limit}. On your own machine there is none: convergebench score."
    )


def keep(files: Iterable[Upload], *, name: str, remote_address: str | None) -> UploadedChain:
    """Check the header of every image, then store the chain: all or nothing.

    No pixel is decoded here: the worker does that, because it can be killed. Raises Unusable if
    an image is refused.
    """
    stored, pixels = [], 0
    for number, forward, file in arrange(files):
        try:
            picture = Picture.from_head(
                file.read(), max_bytes=MAX_PICTURE_BYTES, max_pixels=MAX_PICTURE_PIXELS
            )
        except ArchiveError as error:
            raise Unusable(f"{error}.") from None
        except ImageError as error:
            raise Unusable(f"{file.name}: {error}.") from None
        pixels += picture.width * picture.height
        if pixels > MAX_TOTAL_PIXELS:
            raise Unusable(f"More than {MAX_TOTAL_PIXELS // 10**6} megapixels in all.")
        if not number and min(picture.size) < 64:
            raise Unusable(
                f"The source is {picture.width} x {picture.height} pixels; both sides need at "
                "least 64."
            )
        # Only the bytes are written here; those of a refused chain are deleted later.
        stored.append((number, forward, StoredImage.objects.write_bytes(picture)))
    with transaction.atomic():
        StoredImage.objects.upsert(row for *_, row in stored)
        chain = UploadedChain.objects.create(name=name, remote_address=remote_address)
        UploadedPicture.objects.bulk_create(
            UploadedPicture(chain=chain, number=number, forward=forward, stored=row)
            for number, forward, row in stored
        )
    job_queue.enqueue(chain.pk, job_queue.SCORE_UPLOADED, job_queue.GPU)
    return chain
