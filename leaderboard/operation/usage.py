"""What takes how much room: pictures by what needs them, files by folder, tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.core.files.storage import FileSystemStorage, default_storage
from django.db import connection
from django.db.models import Count, Q, QuerySet, Sum
from django.utils import timezone

from leaderboard import garbage
from leaderboard.models import Run, StoredImage, Trip, TripStep


@dataclass(frozen=True)
class Taken:
    """So many things of one kind, and the bytes they take."""

    what: str
    count: int
    bytes: int


def pictures() -> Iterator[Taken]:
    """Pictures by what needs them; one that several need is counted with each."""
    rows = StoredImage.objects
    yield _taken("all pictures", rows.all())
    yield _taken("source images", rows.filter(source_images__isnull=False).distinct())
    yield _taken("prepared for suites", rows.filter(suite_pictures__isnull=False).distinct())
    yield _taken("uploads at /try/", rows.filter(uploads__isnull=False).distinct())
    yield _taken("nothing refers to", garbage.unreferenced(timezone.now()))
    for run in Run.objects.select_related("editing_model", "suite").order_by("pk"):
        trips = Trip.objects.filter(chain__run=run)
        own = Q(pk__in=trips.values("edited")) | Q(pk__in=trips.values("restored"))
        own |= Q(pk__in=TripStep.objects.filter(chain__run=run).values("picture"))
        if (found := _taken(f"run {run.pk}: {run}", rows.filter(own))).count:
            yield found


def files() -> Iterator[Taken]:
    """Files by folder, where they lie on this machine's disk: a bucket counts its own."""
    if not isinstance(default_storage, FileSystemStorage):
        return
    root = Path(default_storage.location)
    for folder in sorted(path for path in root.glob("*") if path.is_dir()):
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        yield Taken(f"{folder.name}/", len(sizes), sum(sizes))


def tables() -> Iterator[Taken]:
    """The largest tables with their indexes; SQLite tells only of itself as a whole."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT relname, n_live_tup, pg_total_relation_size(relid) "
                "FROM pg_stat_user_tables ORDER BY 3 DESC LIMIT 12"
            )
            yield from (Taken(*row) for row in cursor.fetchall())
        else:
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
            yield Taken("the database", 1, cursor.fetchone()[0])


def _taken(what: str, rows: QuerySet[StoredImage]) -> Taken:
    found = rows.aggregate(count=Count("pk", distinct=True), bytes=Sum("bytes"))
    return Taken(what, found["count"], found["bytes"] or 0)
