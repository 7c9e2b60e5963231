"""Pictures as voters get them: nothing about them tells which model made them.

Drawn anew from their pixels at the size of the source, whatever size was answered, without any
chunk but pixels; their length is rounded up, so that it says little; kept under a name that
only this site can work out. What cannot be hidden are the pixels themselves: who compares them
with every picture of the public pages can find the one.
"""

from __future__ import annotations

from datetime import timedelta

from django.core.files.storage import default_storage
from django.utils import timezone
from django.utils.crypto import salted_hmac

from evaluation.images import encode_webp, fit
from leaderboard.models import StoredImage
from leaderboard.models.pictures import decoding, write

FOLDER = "ballots"
#: Lengths are multiples of this: zeros after the end, which no decoder reads.
ROUNDED = 32 * 1024
#: Of questions that nobody is asked any more.
KEPT = timedelta(days=2)


def name(stored: StoredImage, size: tuple[int, int]) -> str:
    value = f"{stored.pk}:{size[0]}x{size[1]}"
    found = salted_hmac("leaderboard.people.ballots", value, algorithm="sha256").hexdigest()
    return f"{FOLDER}/{found[:2]}/{found}.webp"


def read(stored: StoredImage, size: tuple[int, int]) -> bytes:
    """The picture at this size; FileNotFoundError or ImageError where it is gone or broken."""
    file = name(stored, size)
    try:
        with default_storage.open(file) as kept:
            return kept.read()
    except FileNotFoundError:
        with decoding:
            data = drawn(stored, size)
        write(file, data)
        return data


def drawn(stored: StoredImage, size: tuple[int, int]) -> bytes:
    data = encode_webp(fit(stored.read().image, size))
    return data + bytes(-len(data) % ROUNDED)


def prepare(stored: StoredImage, size: tuple[int, int]) -> None:
    """Draw it before anybody waits for it."""
    if not default_storage.exists(name(stored, size)):
        write(name(stored, size), drawn(stored, size))


def forget() -> int:
    """Remove what was drawn days ago; who is asked again has it drawn again. How many."""
    removed, before = 0, timezone.now() - KEPT
    try:
        shards, _ = default_storage.listdir(FOLDER)
    except FileNotFoundError:
        return 0
    for shard in shards:
        for file in default_storage.listdir(f"{FOLDER}/{shard}")[1]:
            path = f"{FOLDER}/{shard}/{file}"
            try:
                if default_storage.get_modified_time(path) < before:
                    default_storage.delete(path)
                    removed += 1
            except FileNotFoundError:
                continue
    return removed
