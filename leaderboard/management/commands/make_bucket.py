"""Make the bucket that pictures are kept in."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.files.storage import storages
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Make the buckets for pictures where there are none yet; nothing where files are used."

    def handle(self, *args: Any, **options: Any) -> None:
        for alias in ("default", "cold"):
            storage: Any = storages[alias] if alias in settings.STORAGES else None
            if not hasattr(storage, "bucket_name"):
                continue
            client, name = storage.connection.meta.client, storage.bucket_name
            if name not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
                client.create_bucket(Bucket=name)
                self.stdout.write(f"Made the bucket {name}.")
