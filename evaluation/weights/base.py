"""One file of weights: its place, its check, its download."""

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

#: (source, bytes so far, bytes in all or None)
Progress = Callable[[str, int, int | None], None]

# Errors of reading a file with other content. Not Exception: that would also catch the
# timeout of a job.
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
    """Missing or wrong weights; the message names the file and the remedy."""


class Unusable(Exception):
    """A source that did not deliver the weights; the message has the reason."""


@dataclass(frozen=True)
class Status:
    """State of one set of weights; `ready` ones were verified just now."""

    name: str
    label: str
    #: The metric, witness or editor that needs them.
    needed_by: str
    ready: bool
    file: Path
    #: Set once they are ready; the size in bytes.
    sha256: str | None
    size: int | None
    #: The problem and the remedy; empty when ready.
    problem: str


def folder() -> Path:
    """Return the folder of all weights: $CONVERGEBENCH_WEIGHTS, or one in ~/.cache."""
    chosen = os.environ.get("CONVERGEBENCH_WEIGHTS")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache/convergebench/weights"


class Weights(ABC):
    """One file of weights in the folder, verified whenever it is used."""

    name: ClassVar[str]
    label: ClassVar[str]
    #: The metric, witness or editor that needs them.
    needed_by: ClassVar[str]
    #: None for weights in several file formats: scores carry the hash of the file in use.
    sha256: ClassVar[str | None]
    #: Hashes of other files that may be in its place; scores carry the one in use.
    others: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def ways(self) -> str:
        """Every way to get the file, in words."""

    @property
    def file(self) -> Path:
        """The path of the file, present or not."""
        return folder() / f"{self.name}.weights"

    def _write(self, target: Path, file: Path | None, progress: Progress) -> None:
        """Write the weights to `target`, from `file` or the network.

        Raises Unusable, OSError or WeightsError.
        """
        raise NotImplementedError

    def locate(self) -> tuple[Path, str]:
        """Return the verified file and its SHA-256. Raises WeightsError."""
        if not self.file.is_file():
            raise WeightsError(f"{self.file} is missing. {self.ways}")
        actual = digest(self.file)
        if self.sha256 and actual not in (self.sha256, *self.others):
            raise WeightsError(
                f"{self.file} is damaged: its SHA-256 is {actual[:12]}…, not {self.sha256[:12]}…. "
                f"{self.ways}"
            )
        return self.file, actual

    def fetch(self, file: Path | None, progress: Progress) -> Path:
        """Write the file to its place unless it is ready; return it. Raises WeightsError."""
        if not self.status().ready:
            if file and not file.is_file():
                raise WeightsError(f"{file} cannot be used for {self.label}: No such file")
            try:
                with only_one(self.name):
                    if not self.status().ready:  # no other process was quicker
                        with written(self.file) as unfinished:
                            self._write(unfinished, file, progress)
            except Unusable as error:
                failed = f"{file} cannot be used for" if file else "could not fetch"
                raise WeightsError(f"{failed} {self.label}: {error}. {self.ways}") from error
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
    """Return the file's SHA-256, computed again only if the file has changed."""
    stat = file.stat()
    return _digest(file, stat.st_size, stat.st_mtime_ns, stat.st_ino)


@lru_cache(maxsize=32)
def _digest(file: Path, size: int, changed: int, inode: int) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Hold a lock, so that only one process at a time fetches these weights."""
    from filelock import FileLock

    folder().mkdir(parents=True, exist_ok=True)
    with FileLock(folder() / f".{name}.lock"):
        yield


@contextmanager
def written(file: Path) -> Iterator[Path]:
    """Yield a path to write to; it is renamed to `file` at the end."""
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
    """Write the file at `url`, on a host that we choose. Raises Unusable."""
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
                    raise Unusable(f"{url} is larger than {limit:,} bytes")
                progress(stage, done, total)
    except (httpx2.HTTPError, ValueError) as error:
        raise Unusable(f"{url} cannot be reached: {error}") from error
    if total is not None and done != total:
        raise Unusable(f"{url} ended after {done:,} of {total:,} bytes")
