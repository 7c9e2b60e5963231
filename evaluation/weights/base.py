"""One file of weights: where it lies, how it is checked, how it comes here."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import file_digest
from pathlib import Path
from typing import ClassVar

from evaluation.errors import UserFacingError
from evaluation.weights.download import Progress


class WeightsError(UserFacingError):
    """Weights that are missing or not what they should be; says which file and what to do."""


@dataclass(frozen=True)
class Status:
    """How one set of weights stands. What is `ready` was verified just now."""

    name: str
    label: str
    #: The metric, witness or editor that needs them.
    needed_by: str
    ready: bool
    file: Path
    #: Known once they are ready; the size in bytes.
    sha256: str | None
    size: int | None
    #: What is wrong and what to do; empty when ready.
    problem: str


def folder() -> Path:
    """Where weights are kept: $CONVERGEBENCH_WEIGHTS, or ~/.cache/convergebench/weights."""
    chosen = os.environ.get("CONVERGEBENCH_WEIGHTS")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache/convergebench/weights"


class Weights(ABC):
    """One file of weights: where it lies, how it is checked, how it is had."""

    name: ClassVar[str]
    label: ClassVar[str]
    #: The metric, witness or editor that needs them.
    needed_by: ClassVar[str]

    @property
    @abstractmethod
    def file(self) -> Path:
        """Where the file lies, or will."""

    @abstractmethod
    def locate(self) -> tuple[Path, str]:
        """The verified file and its SHA-256, or WeightsError."""

    @abstractmethod
    def fetch(self, file: Path | None, progress: Progress) -> Path:
        """Bring the file to its place; one process at a time is here."""

    def status(self) -> Status:
        try:
            file, verified = self.locate()
        except WeightsError as error:
            problem = str(error)
            return Status(
                self.name, self.label, self.needed_by, False, self.file, None, None, problem
            )
        size = file.stat().st_size
        return Status(self.name, self.label, self.needed_by, True, file, verified, size, "")


def digest(file: Path) -> str:
    """The file's SHA-256, computed again only when the file has changed."""
    stat = file.stat()
    return _digest(file, stat.st_size, stat.st_mtime_ns, stat.st_ino)


@lru_cache(maxsize=32)
def _digest(file: Path, size: int, changed: int, inode: int) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Only one process at a time fetches these weights; the next finds them there."""
    from filelock import FileLock

    folder().mkdir(parents=True, exist_ok=True)
    with FileLock(folder() / f".{name}.lock"):
        yield


@contextmanager
def written(file: Path) -> Iterator[Path]:
    """A name to write under; it becomes `file` at the end, whole or not at all."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        unfinished.chmod(0o644)
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
