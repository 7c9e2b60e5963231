"""Stored pictures: content-addressed, so nothing is kept or written twice."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TypeAlias

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import models
from django.db.models.functions import Now
from django.urls import reverse
from PIL import Image

from evaluation.images import EXTENSIONS, Picture, encode_webp, thumbnail

#: Where a row has a field called bytes.
Data: TypeAlias = bytes
#: What a web process decodes itself: of a run's picture that no worker has copied yet.
MAX_WEB_PIXELS = 4_500_000


class StoredImageManager(models.Manager["StoredImage"]):
    def get_or_store(self, picture: Picture) -> StoredImage:
        """The row of this picture: its bytes are in storage before the row exists."""
        if self.filter(pk=picture.sha256).update(created_at=Now()):
            return self.get(pk=picture.sha256)
        row = self.write_bytes(picture)
        row.write_thumbnail(picture)
        self.upsert([row])
        return row

    def write_bytes(self, picture: Picture) -> StoredImage:
        """Write the bytes; the row to add. Touches no database, so threads may."""
        row = StoredImage(
            sha256=picture.sha256,
            mime=picture.mime,
            width=picture.width,
            height=picture.height,
            bytes=len(picture.data),
        )
        write(row.name, picture.data)
        return row

    def upsert(self, rows: Iterable[StoredImage]) -> None:
        """Rows of stored pictures; those there already are young again."""
        self.bulk_create(
            {row.pk: row for row in rows}.values(),
            update_conflicts=True,
            unique_fields=["sha256"],
            update_fields=["created_at"],
        )


class StoredImage(models.Model):
    """A picture as it arrived. Pages show only re-encoded copies and thumbnails of it."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    mime = models.CharField(max_length=32)
    width = models.PositiveIntegerField()
    height = models.PositiveIntegerField()
    bytes = models.PositiveIntegerField()
    # When it was last stored. What is young is spared by garbage collection, and a row that is
    # made young again cannot be taken away by one under way: it waits, looks again, and spares it.
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    objects = StoredImageManager()

    def __str__(self) -> str:
        return f"{self.sha256[:12]} ({self.width} x {self.height})"

    @property
    def name(self) -> str:
        """The name of its bytes, as they arrived, in storage."""
        return f"originals/{self.sha256[:2]}/{self.sha256}.{EXTENSIONS[self.mime]}"

    @property
    def thumbnail_name(self) -> str:
        return f"thumbnails/{self.sha256[:2]}/{self.sha256}.webp"

    @property
    def copy_name(self) -> str:
        return f"copies/{self.sha256[:2]}/{self.sha256}.webp"

    @property
    def thumbnail_url(self) -> str:
        return reverse("picture", args=["thumbnail", self.sha256])

    @property
    def copy_url(self) -> str:
        """A lossless re-encoded copy in canonical form: safe to show in a page."""
        return reverse("picture", args=["copy", self.sha256])

    @property
    def original_url(self) -> str:
        """The bytes as answered, as a download only."""
        return reverse("picture", args=["original", self.sha256])

    def data(self) -> Data:
        """Return its bytes as they arrived. Raises FileNotFoundError if they are gone."""
        with default_storage.open(self.name) as file:
            return file.read()  # type: ignore[no-any-return]

    def read(self) -> Picture:
        """Return the picture as it arrived. Touches no database, so threads may call it."""
        return Picture(self.data(), self.mime, self.width, self.height)

    def read_thumbnail(self) -> Image.Image:
        """The small copy, which was made here."""
        with default_storage.open(self.thumbnail_name) as file:
            return Picture.from_bytes(file.read()).image

    def write_thumbnail(self, picture: Picture | None = None) -> None:
        """Make the small copy, once; whoever has decoded the picture anyway passes it."""
        if not default_storage.exists(self.thumbnail_name):
            write(self.thumbnail_name, thumbnail((picture or self.read()).image))

    def write_copy(self, picture: Picture | None = None) -> None:
        """Make the full-size copy that pages show, where it is not there yet."""
        if not default_storage.exists(self.copy_name):
            write(self.copy_name, encode_webp((picture or self.read()).image))

    def write_what_pages_cannot(self, picture: Picture) -> None:
        """The small copy, and of a large picture the full one: pages decode small ones only."""
        self.write_thumbnail(picture)
        if self.width * self.height > MAX_WEB_PIXELS:
            self.write_copy(picture)

    @property
    def may_be_decoded_here(self) -> bool:
        """Tell if a web process may decode it: small, and not an anonymous upload."""
        return self.width * self.height <= MAX_WEB_PIXELS and not self.uploads.exists()


#: Held by a page while it decodes: each picture takes up to 70 MB, and a process serves eight at once.
decoding = threading.Lock()


def write(name: str, data: bytes) -> None:
    """Store bytes under a name that their content decides: to do it again changes nothing."""
    default_storage.save(name, ContentFile(data))
