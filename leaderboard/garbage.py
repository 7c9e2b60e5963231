"""Pictures and bundles that nothing refers to: rows first, then files without a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice

from django.core.files.storage import default_storage
from django.db.models import Exists, ForeignKey, ForeignObjectRel, OuterRef, QuerySet
from django.utils import timezone

from leaderboard.models import ContributedRun, StoredImage

#: What is younger may be on its way to a row.
MOMENT = timedelta(hours=1)
FOLDERS = ("originals", "thumbnails", "copies")


@dataclass
class Collected:
    rows: int = 0
    files: int = 0


def unreferenced(before: datetime) -> QuerySet[StoredImage]:
    """Rows made before then to which no foreign key anywhere leads."""
    rows = StoredImage.objects.filter(created_at__lt=before)
    for relation in StoredImage._meta.get_fields(include_hidden=True):
        if isinstance(relation, ForeignObjectRel) and isinstance(relation.field, ForeignKey):
            using = {relation.field.attname: OuterRef("pk")}
            rows = rows.exclude(Exists(relation.field.model._base_manager.filter(**using)))
    return rows


def collect(age: timedelta, *, dry_run: bool = False) -> Collected:
    """Remove what is older than `age`; younger things may still be on their way to a row."""
    before = timezone.now() - age
    found = Collected(rows=unreferenced(before).count())
    if not dry_run:
        # One statement, so that no reference can come between the look and the deed.
        unreferenced(before)._raw_delete(StoredImage.objects.db)
    for name in chain(orphans(), unclaimed_bundles()):
        # The time is asked last: a picture that is stored once more is touched, and so spared.
        if _modified(name) < before:
            found.files += 1
            if not dry_run:
                default_storage.delete(name)
    return found


def lost() -> Iterator[StoredImage]:
    """Pictures that something refers to and whose bytes are gone from storage."""
    for row in StoredImage.objects.order_by("pk").iterator():
        if not default_storage.exists(row.name):
            yield row


def orphans() -> Iterator[str]:
    """Files that no row names."""
    names = _files()
    while batch := list(islice(names, 500)):
        hashes = {name: name.rsplit("/", 1)[-1].partition(".")[0] for name in batch}
        rows = StoredImage.objects.filter(pk__in=set(hashes.values()))
        known = set(rows.values_list("pk", flat=True))
        yield from (name for name, sha256 in hashes.items() if sha256 not in known)


def unclaimed_bundles() -> Iterator[str]:
    """Files of contributed runs that nobody is going to check any more."""
    waiting = {contribution.file_name for contribution in ContributedRun.objects.waiting()}
    yield from (
        n for file in _listed("contributed")[1] if (n := f"contributed/{file}") not in waiting
    )


def collect_pictures(keys: Iterable[str]) -> Collected:
    """Remove those of these pictures that nothing refers to any more, their files with them."""
    found = Collected()
    before = timezone.now() - MOMENT
    for row in unreferenced(before).filter(pk__in=list(keys)):
        # Asked once more in the same statement: what was stored again meanwhile is spared.
        if unreferenced(before).filter(pk=row.pk)._raw_delete(StoredImage.objects.db):
            found.rows += 1
            for name in (row.name, row.thumbnail_name, row.copy_name):
                found.files += default_storage.exists(name)
                default_storage.delete(name)
    return found


def _files() -> Iterator[str]:
    for folder in FOLDERS:
        for shard in _listed(folder)[0]:
            for name in _listed(f"{folder}/{shard}")[1]:
                yield f"{folder}/{shard}/{name}"


def _listed(folder: str) -> tuple[list[str], list[str]]:
    """The folders and files in it."""
    try:
        return default_storage.listdir(folder)
    except FileNotFoundError:
        return [], []


def _modified(name: str) -> datetime:
    try:
        return default_storage.get_modified_time(name)
    except FileNotFoundError:
        return timezone.now()
