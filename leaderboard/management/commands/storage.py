"""Maintain stored images: usage, lost files, garbage, recovery, the bucket."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.files.storage import storages
from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q
from django.template.defaultfilters import filesizeformat

from leaderboard import jobs
from leaderboard.models import Run, StoredImage, Trip, TripStep
from leaderboard.operation import storage


class Command(BaseCommand):
    help = "Check and clean stored images and files."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="action", required=True)
        actions.add_parser("usage", help="Sizes of images, by use and by run.")
        actions.add_parser(
            "verify", help="Find images whose file is gone, and files without a database row."
        )
        clean = actions.add_parser(
            "clean", help="Remove unreferenced images, and files without a database row."
        )
        clean.add_argument(
            "--hours", type=float, default=24, help="Keep images and files younger than this."
        )
        clean.add_argument("--dry-run", action="store_true", help="Only count; remove nothing.")
        recover = actions.add_parser(
            "recover",
            help="Fetch a run's lost images from the provider again. If the provider has lost an "
            "image too, play that image's chain again.",
        )
        recover.add_argument("run", type=int)
        actions.add_parser("make-bucket", help="Create the bucket for images unless it exists.")

    def handle(self, *args: Any, **options: Any) -> None:
        action = options["action"]
        if action == "usage":
            self._usage()
        elif action == "verify":
            self._verify()
        elif action == "clean":
            self._clean(options["hours"], dry_run=options["dry_run"])
        elif action == "recover":
            self._recover(options["run"])
        else:
            self._make_bucket()

    def _usage(self) -> None:
        for line in storage.usage():
            size = filesizeformat(line.bytes).replace("\u00a0", " ")
            self.stdout.write(f"{size:>10}  {line.count:>9,}  {line.use}")

    def _verify(self) -> None:
        lost = 0
        for image in storage.lost():
            lost += 1
            runs = ", ".join(map(str, _runs_with(image)))
            needed = f"needed by run {runs}" if runs else "needed by no run"
            self.stdout.write(f"lost: {image.name} ({needed})")
        orphans = 0
        for name in storage.orphans():
            orphans += 1
            self.stdout.write(f"without a row: {name}")
        self.stdout.write(f"{lost} images are lost, {orphans} files have no row.")
        if lost:
            raise CommandError(
                "copy the lost files from a backup, or recover the images of each run: "
                "`manage.py storage recover RUN`"
            )

    def _clean(self, hours: float, *, dry_run: bool) -> None:
        removed = storage.collect(timedelta(hours=hours), dry_run=dry_run)
        verb = "would be removed" if dry_run else "removed"
        self.stdout.write(f"{removed.rows} images and {removed.files} files {verb}.")

    def _recover(self, number: int) -> None:
        run = Run.objects.select_related("editing_model", "suite").filter(pk=number).first()
        if run is None:
            raise CommandError(f"There is no run {number}.")
        try:
            jobs.recover(run)
        except jobs.NotAllowed as error:
            raise CommandError(f"Run {number}: {error}") from None
        self.stdout.write(f"Run {number}: a worker recovers its images.")

    def _make_bucket(self) -> None:
        backend: Any = storages["default"]
        if not hasattr(backend, "bucket_name"):
            return  # images are stored in a folder
        client, name = backend.connection.meta.client, backend.bucket_name
        if name not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
            client.create_bucket(Bucket=name)
            self.stdout.write(f"Created the bucket {name}.")


def _runs_with(image: StoredImage) -> list[int]:
    """Return the numbers of the runs with this image among their answers."""
    trips = Trip.objects.filter(Q(edited=image) | Q(restored=image))
    steps = TripStep.objects.filter(image=image)
    rows = (trips, steps)
    return sorted({run for query in rows for run in query.values_list("chain__run", flat=True)})
