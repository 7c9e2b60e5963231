"""Stored images, named by the hash of their content, so that no image is stored twice."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from hashlib import sha256
from typing import TypeAlias

import structlog
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import models
from django.db.models.functions import Now
from django.urls import reverse
from PIL import Image

from evaluation.images import EXTENSIONS, EncodedImage, encode_webp, thumbnail

#: An alias, because `StoredImage` has a field called `bytes`.
Data: TypeAlias = bytes
#: A web process decodes an image of up to this size itself if no worker has made a copy yet.
MAX_WEB_PIXELS = 4_500_000

log = structlog.get_logger(__name__)


class AlteredImage(FileNotFoundError):
    """The stored bytes do not match the image's hash: the original bytes are gone."""


class StoredImageManager(models.Manager["StoredImage"]):
    def get_or_store(self, image: EncodedImage) -> StoredImage:
        """Return the row of this image; a new row is added after its bytes are stored."""
        if self.filter(pk=image.sha256).update(created_at=Now()):
            return self.get(pk=image.sha256)
        row = self.write_bytes(image)
        row.write_thumbnail(image)
        self.upsert([row])
        return row

    def write_bytes(self, image: EncodedImage) -> StoredImage:
        """Store the bytes and return an unsaved row; safe in threads, as no database is used."""
        row = StoredImage(
            sha256=image.sha256,
            mime=image.mime,
            width=image.width,
            height=image.height,
            bytes=len(image.data),
        )
        write(row.name, image.data)
        return row

    def upsert(self, rows: Iterable[StoredImage]) -> None:
        """Add rows of stored images; update `created_at` of rows that exist."""
        self.bulk_create(
            {row.pk: row for row in rows}.values(),
            update_conflicts=True,
            unique_fields=["sha256"],
            update_fields=["created_at"],
        )


class StoredImage(models.Model):
    """An image as it arrived. Pages show only re-encoded copies and thumbnails."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    mime = models.CharField(max_length=32)
    width = models.PositiveIntegerField()
    height = models.PositiveIntegerField()
    bytes = models.PositiveIntegerField()
    # The time the image was last stored. Garbage collection spares recent rows. An image may be
    # stored again meanwhile: the deletion waits for the row's lock, then checks the time again.
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    objects = StoredImageManager()

    def __str__(self) -> str:
        return f"{self.sha256[:12]} ({self.width} x {self.height})"

    @property
    def name(self) -> str:
        """The name of the original bytes in storage."""
        return f"originals/{self.sha256[:2]}/{self.sha256}.{EXTENSIONS[self.mime]}"

    @property
    def thumbnail_name(self) -> str:
        return f"thumbnails/{self.sha256[:2]}/{self.sha256}.webp"

    @property
    def copy_name(self) -> str:
        return f"copies/{self.sha256[:2]}/{self.sha256}.webp"

    @property
    def thumbnail_url(self) -> str:
        return reverse("image", args=["thumbnail", self.sha256])

    @property
    def copy_url(self) -> str:
        """The URL of a lossless re-encoded copy in canonical form, safe to show in pages."""
        return reverse("image", args=["copy", self.sha256])

    @property
    def original_url(self) -> str:
        """The URL of the original bytes, as a download only."""
        return reverse("image", args=["original", self.sha256])

    def data(self) -> Data:
        """Return the original bytes.

        Raises FileNotFoundError if they are gone, AlteredImage if they do not match the hash.
        """
        with default_storage.open(self.name) as file:
            data: Data = file.read()
        if sha256(data).hexdigest() != self.sha256:
            log.error("stored image is altered", image=self.name)
            raise AlteredImage(f"{self.name} does not match its hash")
        return data

    def read(self) -> EncodedImage:
        """Return the original image without the database: safe in threads."""
        return EncodedImage(self.data(), self.mime, self.width, self.height)

    def read_thumbnail(self) -> Image.Image:
        """Return the thumbnail."""
        with default_storage.open(self.thumbnail_name) as file:
            return EncodedImage.from_bytes(file.read()).decoded

    def write_thumbnail(self, image: EncodedImage | None = None) -> None:
        """Store the thumbnail if it does not exist; `image` avoids reading the image again."""
        if not default_storage.exists(self.thumbnail_name):
            write(self.thumbnail_name, thumbnail((image or self.read()).decoded))

    def write_copy(self, image: EncodedImage | None = None) -> None:
        """Store the full-size copy that pages show, if it does not exist."""
        if not default_storage.exists(self.copy_name):
            write(self.copy_name, encode_webp((image or self.read()).decoded))

    def write_previews(self, image: EncodedImage) -> None:
        """Store the thumbnail, and the copy if the image is too large for pages to decode."""
        self.write_thumbnail(image)
        if self.width * self.height > MAX_WEB_PIXELS:
            self.write_copy(image)

    @property
    def may_be_decoded_here(self) -> bool:
        """Return True if a web process may decode this image: small, no anonymous upload."""
        return self.width * self.height <= MAX_WEB_PIXELS and not self.uploads.exists()


#: A page holds this lock while it decodes or stores an image, which takes up to 70 MB.
decoding = threading.Lock()


def write(name: str, data: bytes) -> None:
    """Store bytes under a name derived from their content; idempotent."""
    default_storage.save(name, ContentFile(data))
