"""Say which stored pictures are lost, and which files nobody asked for."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q

from leaderboard import garbage
from leaderboard.models import Trip, TripStep


class Command(BaseCommand):
    help = (
        "Find pictures whose file is gone, with the runs that need them, and files without a row."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        lost = 0
        for row in garbage.lost():
            lost += 1
            trips = Trip.objects.filter(Q(edited=row) | Q(restored=row))
            steps = TripStep.objects.filter(picture=row)
            runs = sorted(
                {
                    run
                    for rows in (trips, steps)
                    for run in rows.values_list("chain__run", flat=True)
                }
            )
            needed = f"needed by run {', '.join(map(str, runs))}" if runs else "of no run"
            self.stdout.write(f"lost: {row.name} ({needed})")
        orphans = 0
        for name in garbage.orphans():
            orphans += 1
            self.stdout.write(f"without a row: {name}")
        self.stdout.write(f"{lost} pictures are lost, {orphans} files have no row.")
        if lost:
            raise CommandError(
                "put the lost files back from a backup, or have them fetched or played again: "
                "`manage.py recover_pictures RUN`"
            )
