"""Process one large answer at a time: many at once would not fit into memory."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: Answers above these limits are processed one at a time. For comparison: an image of a suite takes
#: about 2 MB as PNG, and 3 MB within JSON.
LARGE_BYTES = 8 * 2**20
LARGE_PIXELS = 4_500_000


class LargeAnswers:
    """A lock that all edits share, so that only one large answer is in memory."""

    def __init__(self) -> None:
        self._slot = threading.Lock()
        self._edit = threading.local()

    @contextmanager
    def edit(self) -> Iterator[None]:
        """Wrap one edit of this thread, from its request to its decoded image."""
        self._edit.holds = False
        try:
            yield
        finally:
            if self._edit.holds:
                self._slot.release()
            del self._edit.holds

    def wait(self, seconds: float) -> None:
        """Acquire the lock for this edit. Raises TimeoutError if other edits hold it too long."""
        if getattr(self._edit, "holds", True):  # acquired already, or not within an edit
            return
        if not self._slot.acquire(timeout=max(0.0, seconds)):
            raise TimeoutError("other large answers are being processed")
        self._edit.holds = True


#: The lock of this process.
LARGE_ANSWERS = LargeAnswers()
M_ARENA_MAX = -8


def limit_malloc_arenas() -> None:
    """Limit glibc's malloc arenas, so that threads reuse the freed memory of large images.

    Eight threads that decode one after another take 440 MB with the limit, 930 MB without.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)
