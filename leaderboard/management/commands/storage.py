"""Say what takes how much room."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.template.defaultfilters import filesizeformat

from leaderboard.operation import usage


class Command(BaseCommand):
    help = "What is used by what: pictures by run, files by folder, the largest tables."

    def handle(self, *args: Any, **options: Any) -> None:
        for title, found in (
            ("Pictures", usage.pictures()),
            ("Files", usage.files()),
            ("Database", usage.tables()),
        ):
            self.stdout.write(title)
            for one in found:
                size = filesizeformat(one.bytes).replace("\u00a0", " ")
                self.stdout.write(f"  {size:>10}  {one.count:>9,}  {one.what}")
