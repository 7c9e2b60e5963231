"""What storage does to a run: a picture that is gone costs its chain, a full disk pauses the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from evaluation.errors import UserFacingError

T = TypeVar("T")

#: Seconds until a run that storage paused tries again by itself.
STORAGE_REST = 300.0


class StorageError(UserFacingError):
    """A picture could not be written or read."""


class PictureGone(Exception):
    """A picture that a chain needs is no longer there: the chain is lost, by our fault."""


def stored_safely(access: Callable[[], T]) -> T:
    """What `access` returns; whatever goes wrong with storage is one of the two errors."""
    try:
        return access()
    except FileNotFoundError as error:
        raise PictureGone(f"A picture is gone from storage: {error.filename or error}") from error
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise StorageError(f"Pictures cannot be stored or read: {why}") from error
