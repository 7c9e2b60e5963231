"""Bring your own chain: which upload is which picture, and what came out."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from evaluation.images import ImageError, Picture
from leaderboard.models import StoredImage, TriedChain, TriedPicture

MAX_PICTURES = 101
MAX_PICTURE_BYTES = 12 * 2**20
MAX_TOTAL_BYTES = 120 * 2**20
NAMED = re.compile(r"^I([0-9]{1,3})_(source|forward|backward)\b", re.IGNORECASE)


class Unusable(ValueError):
    """An upload that is not a chain; written for people."""


@dataclass(frozen=True)
class Upload:
    """A file by the name its sender gave it; the name is never used on disk."""

    name: str
    data: bytes


def unpack(name: str, data: bytes) -> list[Upload]:
    """The files of a zip, none larger than a picture may be; others are refused by name."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, NotImplementedError):
        raise Unusable(f"{name} is not a zip file.") from None
    entries = [
        e for e in archive.infolist() if not e.is_dir() and not e.filename.startswith("__MACOSX")
    ]
    if len(entries) > MAX_PICTURES:
        raise Unusable(f"{name} holds {len(entries)} files; at most {MAX_PICTURES} are taken.")
    files, total = [], 0
    for entry in entries:
        if entry.flag_bits & 1:
            raise Unusable(f"{entry.filename} in {name} is encrypted.")
        try:
            with archive.open(entry) as file:
                # What the entry claims of its size is not believed.
                content = file.read(MAX_PICTURE_BYTES + 1)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError):
            raise Unusable(f"{entry.filename} in {name} cannot be unpacked.") from None
        total += len(content)
        if len(content) > MAX_PICTURE_BYTES or total > MAX_TOTAL_BYTES:
            raise Unusable(f"{entry.filename} in {name} is too large.")
        files.append(Upload(entry.filename.rsplit("/", 1)[-1], content))
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


def keep(files: Iterable[Upload], *, name: str, remote_address: str | None) -> TriedChain:
    """Check every picture, then store the chain: all or nothing."""
    pictures = []
    for number, forward, file in arrange(files):
        try:
            pictures.append(
                (number, forward, Picture.from_bytes(file.data, max_bytes=MAX_PICTURE_BYTES))
            )
        except ImageError as error:
            raise Unusable(f"{file.name}: {error}.") from None
    source = pictures[0][2]
    if min(source.size) < 64 or source.width * source.height > 4_500_000:
        raise Unusable(
            f"The source is {source.width} x {source.height} pixels; both sides need at least 64, "
            "and all of it at most 4.5 megapixels."
        )
    with transaction.atomic():
        chain = TriedChain.objects.create(name=name, remote_address=remote_address)
        TriedPicture.objects.bulk_create(
            TriedPicture(
                chain=chain,
                number=number,
                forward=forward,
                stored=StoredImage.objects.keep(picture),
            )
            for number, forward, picture in pictures
        )
    ring(chain)
    return chain


def ring(chain: TriedChain) -> None:
    from evaluation.jobs import rings

    rings.ring(chain.pk, rings.TRY, rings.GPU)
