"""Files whose names their content decides: written whole or not at all, and never twice."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from django.core.files.base import File
from django.core.files.storage import FileSystemStorage


class WholeFileStorage(FileSystemStorage):
    """Files on disk that no crash leaves half written.

    A name that exists is kept: only touched, so that garbage collection sees it in use.
    """

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        return name

    def _save(self, name: str, content: File) -> str:
        path = Path(self.path(name))
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == content.size:
                os.utime(path)
                return name
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            try:
                for chunk in content.chunks():
                    file.write(chunk)
                file.flush()
                # The row that names this file is committed after it: so must its bytes be.
                os.fsync(file.fileno())
                Path(file.name).chmod(0o644)
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        return name
