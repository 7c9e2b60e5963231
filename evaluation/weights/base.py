"""One file of weights: its path, verification and download."""

from __future__ import annotations

import os
import pickle
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import file_digest
from pathlib import Path
from typing import ClassVar

from evaluation.errors import UserFacingError

#: (source, bytes so far, bytes in total or None)
Progress = Callable[[str, int, int | None], None]

# Errors of reading a file with unexpected content. `Exception` would also catch a job's time-out.
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)


class WeightsError(UserFacingError):
    """Weights that are missing or wrong; the message names the file and the remedy."""


class SourceError(Exception):
    """A download or file that did not give the weights; the message has the reason."""


@dataclass(frozen=True)
class Status:
    """The status of one set of weights; `ready` if the file was just verified."""

    name: str
    label: str
    #: The metric, witness or editor that needs them.
    needed_by: str
    ready: bool
    file: Path
    #: Hash and size in bytes of the verified file; None if it is not ready.
    sha256: str | None
    size: int | None
    #: The problem and its remedy; empty if ready.
    problem: str


def folder() -> Path:
    """Return the folder of all weights: $CONVERGEBENCH_WEIGHTS, or one in ~/.cache."""
    chosen = os.environ.get("CONVERGEBENCH_WEIGHTS")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache/convergebench/weights"


class Weights(ABC):
    """One file of weights, verified at every use."""

    name: ClassVar[str]
    label: ClassVar[str]
    #: The metric, witness or editor that needs them.
    needed_by: ClassVar[str]
    #: The expected hash; None if any file is accepted. Scores record the hash of the file in use.
    sha256: ClassVar[str | None]
    #: Hashes of other files that are accepted too.
    other_sha256s: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def remedy(self) -> str:
        """Instructions for every way to get the file."""

    @property
    def file(self) -> Path:
        """The path of the file, whether it exists or not."""
        return folder() / f"{self.name}.weights"

    def _write(self, target: Path, file: Path | None, progress: Progress) -> None:
        """Write the weights to `target`, from `file` or from the internet.

        Raises SourceError, OSError or WeightsError.
        """
        raise NotImplementedError

    def locate(self) -> tuple[Path, str]:
        """Verify the file; return it and its SHA-256. Raises WeightsError."""
        if not self.file.is_file():
            raise WeightsError(f"{self.file} is missing. {self.remedy}")
        actual = digest(self.file)
        if self.sha256 and actual not in (self.sha256, *self.other_sha256s):
            raise WeightsError(
                f"{self.file} is damaged: its SHA-256 is {actual[:12]}…, not {self.sha256[:12]}…. "
                f"{self.remedy}"
            )
        return self.file, actual

    def fetch(self, file: Path | None, progress: Progress) -> Path:
        """Write the file unless it is ready; verify and return it. Raises WeightsError."""
        if not self.status().ready:
            if file and not file.is_file():
                raise WeightsError(f"{file} cannot be used for {self.label}: no such file")
            try:
                with fetch_lock(self.name):
                    if not self.status().ready:  # another process may have fetched it
                        with atomic_write(self.file) as unfinished:
                            self._write(unfinished, file, progress)
            except SourceError as error:
                failed = f"{file} cannot be used for" if file else "could not fetch"
                raise WeightsError(f"{failed} {self.label}: {error}. {self.remedy}") from error
            except OSError as error:
                raise WeightsError(f"{self.file} cannot be written: {error}") from error
        return self.locate()[0]

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
    """Return the file's SHA-256, cached until the file changes."""
    stat = file.stat()
    return _digest(file, stat.st_size, stat.st_mtime_ns, stat.st_ino)


@lru_cache(maxsize=32)
def _digest(file: Path, size: int, changed: int, inode: int) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


@contextmanager
def fetch_lock(name: str) -> Iterator[None]:
    """Hold the lock that lets only one process at a time fetch these weights."""
    from filelock import FileLock

    folder().mkdir(parents=True, exist_ok=True)
    with FileLock(folder() / f".{name}.lock"):
        yield


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; rename it to `file` on success."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        unfinished.chmod(0o644)
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def download(url: str, target: Path, *, stage: str, limit: int, progress: Progress) -> None:
    """Download a trusted `url` to `target`. Raises SourceError."""
    import httpx2

    done, total = 0, None
    try:
        with (
            httpx2.stream("GET", url, timeout=30, follow_redirects=True) as response,
            target.open("wb") as stream,
        ):
            response.raise_for_status()
            total = int(response.headers.get("content-length") or 0) or None
            for chunk in response.iter_raw(2**20):
                done += stream.write(chunk)
                if done > limit:
                    raise SourceError(f"{url} is larger than {limit:,} bytes")
                progress(stage, done, total)
    except (httpx2.HTTPError, ValueError) as error:
        raise SourceError(f"{url} cannot be downloaded: {error}") from error
    if total is not None and done != total:
        raise SourceError(f"{url} ended after {done:,} of {total:,} bytes")
