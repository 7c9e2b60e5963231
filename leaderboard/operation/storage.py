"""Stored images and files: sizes by use, lost files, unreferenced files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice

from django.core.files.storage import default_storage
from django.db.models import (
    Count,
    Exists,
    ForeignKey,
    ForeignObjectRel,
    OuterRef,
    Q,
    QuerySet,
    Sum,
)
from django.utils import timezone

from leaderboard.models import ContributedRun, Run, StoredImage, Trip, TripStep

#: An image younger than this may still get a row that refers to it.
GRACE_PERIOD = timedelta(hours=1)
FOLDERS = ("originals", "thumbnails", "copies")


@dataclass
class Collected:
    rows: int = 0
    files: int = 0


def unreferenced(before: datetime) -> QuerySet[StoredImage]:
    """Return images stored before this time to which no foreign key refers."""
    rows = StoredImage.objects.filter(created_at__lt=before)
    for relation in StoredImage._meta.get_fields(include_hidden=True):
        if isinstance(relation, ForeignObjectRel) and isinstance(relation.field, ForeignKey):
            using = {relation.field.attname: OuterRef("pk")}
            rows = rows.exclude(Exists(relation.field.model._base_manager.filter(**using)))
    return rows


def collect(age: timedelta, *, dry_run: bool = False) -> Collected:
    """Remove unreferenced images and files that are older than `age`."""
    before = timezone.now() - age
    collected = Collected(rows=unreferenced(before).count())
    if not dry_run:
        # One statement, so that no reference can be added between check and deletion.
        unreferenced(before)._raw_delete(StoredImage.objects.db)
    for name in chain(orphans(), unclaimed_bundles()):
        # Read the file's time last: storing an image again touches its file, which spares it.
        if _modified(name) < before:
            collected.files += 1
            if not dry_run:
                default_storage.delete(name)
    return collected


def lost() -> Iterator[StoredImage]:
    """Yield images whose bytes are gone from storage."""
    for row in StoredImage.objects.order_by("pk").iterator():
        if not default_storage.exists(row.name):
            yield row


def orphans() -> Iterator[str]:
    """Yield image files that have no row in the database."""
    names = _files()
    while batch := list(islice(names, 500)):
        hashes = {name: name.rsplit("/", 1)[-1].partition(".")[0] for name in batch}
        rows = StoredImage.objects.filter(pk__in=set(hashes.values()))
        stored = set(rows.values_list("pk", flat=True))
        yield from (name for name, sha256 in hashes.items() if sha256 not in stored)


def unclaimed_bundles() -> Iterator[str]:
    """Yield bundle files whose contributed run no longer waits for a check."""
    waiting = {contribution.file_name for contribution in ContributedRun.objects.waiting()}
    yield from (
        n for file in _list_folder("contributed")[1] if (n := f"contributed/{file}") not in waiting
    )


def collect_images(keys: Iterable[str]) -> Collected:
    """Remove these images and their files, except images that are referenced."""
    collected = Collected()
    before = timezone.now() - GRACE_PERIOD
    for row in unreferenced(before).filter(pk__in=list(keys)):
        # The deletion checks again, in case the image was stored again meanwhile.
        if unreferenced(before).filter(pk=row.pk)._raw_delete(StoredImage.objects.db):
            collected.rows += 1
            for name in (row.name, row.thumbnail_name, row.copy_name):
                collected.files += default_storage.exists(name)
                default_storage.delete(name)
    return collected


def _files() -> Iterator[str]:
    for folder in FOLDERS:
        for shard in _list_folder(folder)[0]:
            for name in _list_folder(f"{folder}/{shard}")[1]:
                yield f"{folder}/{shard}/{name}"


def _list_folder(folder: str) -> tuple[list[str], list[str]]:
    """Return the folders and files in a folder."""
    try:
        return default_storage.listdir(folder)
    except FileNotFoundError:
        return [], []


def _modified(name: str) -> datetime:
    try:
        return default_storage.get_modified_time(name)
    except FileNotFoundError:
        return timezone.now()


@dataclass(frozen=True)
class Usage:
    """Number and size of the images of one use."""

    use: str
    count: int
    bytes: int


def usage() -> Iterator[Usage]:
    """Yield number and size of images by their use; some images have several uses."""
    rows = StoredImage.objects
    yield _usage("all images", rows.all())
    yield _usage("source images", rows.filter(source_images__isnull=False).distinct())
    yield _usage("prepared for suites", rows.filter(suite_images__isnull=False).distinct())
    yield _usage("uploads at /upload/", rows.filter(uploads__isnull=False).distinct())
    yield _usage("unreferenced", unreferenced(timezone.now()))
    for run in Run.objects.select_related("editing_model", "suite").order_by("pk"):
        trips = Trip.objects.filter(chain__run=run)
        answers = Q(pk__in=trips.values("edited")) | Q(pk__in=trips.values("restored"))
        answers |= Q(pk__in=TripStep.objects.filter(chain__run=run).values("image"))
        if (of_run := _usage(f"run {run.pk}: {run}", rows.filter(answers))).count:
            yield of_run


def _usage(use: str, rows: QuerySet[StoredImage]) -> Usage:
    sums = rows.aggregate(count=Count("pk", distinct=True), bytes=Sum("bytes"))
    return Usage(use, sums["count"], sums["bytes"] or 0)
