"""Make the bucket that pictures are kept in."""

from __future__ import annotations

from typing import Any

from django.core.files.storage import storages
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Make the bucket for pictures where there is none yet; nothing where files are used."

    def handle(self, *args: Any, **options: Any) -> None:
        storage: Any = storages["default"]
        if not hasattr(storage, "bucket_name"):
            return
        client, name = storage.connection.meta.client, storage.bucket_name
        if name not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
            client.create_bucket(Bucket=name)
            self.stdout.write(f"Made the bucket {name}.")
