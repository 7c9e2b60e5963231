"""Storage of images and static files, which are named by their content."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError
from django.core.files.base import File
from django.core.files.storage import FileSystemStorage
from whitenoise.storage import CompressedManifestStaticFilesStorage

#: Errors of a disk, and of S3, when a file is stored.
STORAGE_ERRORS = (OSError, BotoCoreError, ClientError)


class WholeFileStorage(FileSystemStorage):
    """Storage on disk in which a crash never leaves a half-written file.

    Saving an existing file only updates its time, so that garbage collection does not delete it.
    """

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        return name

    def _save(self, name: str, content: File) -> str:
        path = Path(self.path(name))
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == content.size:
                os.utime(path)
                return name
        # A temporary file must be in the same folder to be renamed.
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            # Buffered, because an unbuffered write to a full disk can be short without an error.
            try:
                file = temporary.open("xb")
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = temporary.open("xb")
            with file:
                for chunk in content.chunks():
                    file.write(chunk)
                file.flush()
                # The bytes must be on disk before the database row is committed.
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return name


class StaticFiles(CompressedManifestStaticFilesStorage):
    """Static files with hashed names, which scripts also use in their imports."""

    support_js_module_import_aggregation = True
