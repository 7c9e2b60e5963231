"""Storage of images and static files, both under names derived from content."""

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
    """Files on disk that no crash leaves half written.

    An existing file is not rewritten, only touched, so that garbage collection spares it.
    """

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        return name

    def _save(self, name: str, content: File) -> str:
        path = Path(self.path(name))
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == content.size:
                os.utime(path)
                return name
        # A unique name for every attempt, in the same folder so that it can be renamed.
        attempt = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            # Buffered: a plain write to a disk that gets full writes less, and raises nothing.
            try:
                file = attempt.open("xb")
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = attempt.open("xb")
            with file:
                for chunk in content.chunks():
                    file.write(chunk)
                file.flush()
                # The row is committed later: by then the bytes must be on disk.
                os.fsync(file.fileno())
            attempt.replace(path)
        except BaseException:
            attempt.unlink(missing_ok=True)
            raise
        return name


class StaticFiles(CompressedManifestStaticFilesStorage):
    """Static files by hashed names, also in the imports of scripts."""

    support_js_module_import_aggregation = True
