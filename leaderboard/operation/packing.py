"""Keep answers of ended runs for less: lossless, but not as the PNG that was answered.

A packed picture is WebP of the same canonical pixels, which are all that is ever played on,
scored or shown; of the bytes as answered the hash stays. Where cold storage is set up, trips that
nobody looks at go there: not those that tables and strips show, nor those where a chain ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

import structlog
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage, storages
from django.db.models import Q, QuerySet
from django.utils import timezone

from evaluation.analysis.events import CROSSINGS
from evaluation.images import ImageError, Picture, encode_webp
from leaderboard.models import Chain, Run, SourceImage, StoredImage, SuitePicture, Trip, TripStep
from leaderboard.models.runs import RunState

log = structlog.get_logger(__name__)

#: Trips that stay at hand whatever happened on them: what tables, strips and galleries show.
AT_HAND = frozenset({1, 2, 3, 5, 10, 20})


@dataclass
class Packed:
    """How many pictures were looked at, packed and moved, and the bytes that this frees."""

    pictures: int = 0
    packed: int = 0
    moved: int = 0
    freed: int = 0

    def __add__(self, other: Packed) -> Packed:
        mine, theirs = vars(self), vars(other)
        return Packed(**{name: mine[name] + theirs[name] for name in mine})


def due() -> QuerySet[Run]:
    """Runs that ended so long ago that their answers may be packed."""
    days = settings.PACK_AFTER_DAYS
    ended = Run.objects.filter(state=RunState.FINISHED, packed_at=None)
    if not days:
        return ended.none()
    return ended.filter(finished_at__lt=timezone.now() - timedelta(days=days))


def pack_run(run: Run, *, dry_run: bool = False) -> Packed:
    """Pack the answers of one run, and move what may be cold; safe to repeat at any time."""
    found = Packed()
    for stored in _answers(run):
        found.pictures += 1
        if not stored.packed_sha256 and stored.mime == "image/png":
            found += _pack(stored, dry_run)
    if "cold" in settings.STORAGES:
        for stored in cooling(run):
            found.moved += 1
            if not dry_run:
                _move(stored)
    if not dry_run:
        Run.objects.filter(pk=run.pk).update(packed_at=timezone.now())
    return found


def _answers(run: Run) -> Iterator[StoredImage]:
    """The pictures of the run's trips, but those that are sources too."""
    trips = Trip.objects.filter(chain__run=run)
    steps = TripStep.objects.filter(chain__run=run)
    keys = {*trips.values_list("edited", flat=True), *trips.values_list("restored", flat=True)}
    keys |= {*steps.values_list("picture", flat=True)}
    keys -= {None, *_sources(keys)}
    for part in _parts(sorted(key for key in keys if key)):
        yield from StoredImage.objects.filter(pk__in=part).order_by("pk")


def _sources(keys: Iterable[str | None]) -> set[str]:
    names = [key for key in keys if key]
    rows = (
        rows.filter(stored__in=part).values_list("stored", flat=True)
        for part in _parts(names)
        for rows in (SuitePicture.objects.all(), SourceImage.objects.all())
    )
    return {key for found in rows for key in found if key}


def _pack(stored: StoredImage, dry_run: bool) -> Packed:
    """The picture as WebP, where that is smaller and its pixels are the very same."""
    try:
        picture = stored.read()
        data = encode_webp(picture.image)
        same = Picture.from_bytes(data).image.tobytes() == picture.image.tobytes()
    except (OSError, ImageError) as error:
        log.warning("not packed", picture=stored.pk, error=str(error))
        return Packed()
    if not same or len(data) >= stored.bytes:
        return Packed()
    freed = stored.bytes - len(data)
    if dry_run:
        return Packed(packed=1, freed=freed)
    original = stored.name
    # Its copy for pages is the same pixels, and may be another encoding of them.
    default_storage.delete(stored.copy_name)
    default_storage.save(stored.copy_name, ContentFile(data))
    StoredImage.objects.filter(pk=stored.pk).update(
        packed_sha256=sha256(data).hexdigest(), packed_bytes=len(data)
    )
    # Last: a crash before it leaves a file that garbage collection finds.
    default_storage.delete(original)
    return Packed(packed=1, freed=freed)


def cooling(run: Run) -> list[StoredImage]:
    """Pictures of a run that may go cold: nobody else's, and on no trip that people look at."""
    cold: set[str] = set()
    warm: set[str] = set()
    chains = {chain.pk: at_hand(chain) for chain in run.chains.all()}
    trips = Trip.objects.filter(chain__run=run)
    for chain, number, *keys in trips.values_list("chain", "number", "edited", "restored"):
        (warm if number in chains[chain] else cold).update(key for key in keys if key)
    steps = TripStep.objects.filter(chain__run=run)
    for chain, number, key in steps.values_list("chain", "number", "picture"):
        (warm if number in chains[chain] else cold).update({key} if key else ())
    cold -= warm | _sources(cold)
    found: list[StoredImage] = []
    for part in _parts(sorted(cold)):
        others = Trip.objects.filter(Q(edited__in=part) | Q(restored__in=part))
        shared: set[str | None] = set()
        for pair in others.exclude(chain__run=run).values_list("edited", "restored"):
            shared.update(pair)
        elsewhere = TripStep.objects.filter(picture__in=part).exclude(chain__run=run)
        shared.update(elsewhere.values_list("picture", flat=True))
        rows = StoredImage.objects.filter(pk__in=part, cold=False)
        found += [row for row in rows if row.pk not in shared]
    return found


def at_hand(chain: Chain) -> set[int]:
    """The trips of a chain whose pictures stay at hand: what people read, its ends, its last."""
    kept = {*AT_HAND, chain.trips_played}
    for numbers in chain.results.values():
        for event in (numbers.get("events") or {}).values():
            time, cause = event["time"], event["cause"]
            ended = max(1, math.ceil(time) if cause in CROSSINGS else int(time) + 1)
            kept |= {ended - 1, ended}
    return kept


def _move(stored: StoredImage) -> None:
    """Copy the bytes to cold storage, say so, then remove them here."""
    name = stored.name
    with stored.storage.open(name) as file:
        storages["cold"].save(name, ContentFile(file.read()))
    StoredImage.objects.filter(pk=stored.pk).update(cold=True)
    default_storage.delete(name)


def _parts(keys: list[str], size: int = 500) -> Iterator[list[str]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]
