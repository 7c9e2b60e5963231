"""One large answer at a time: a process has memory for few of them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: An image of a suite takes about 2 MB as PNG, and 3 MB within JSON.
LARGE_BYTES = 8 * 2**20
LARGE_PIXELS = 4_500_000


class LargeAnswers:
    """A lock that edits share: a large answer waits until no other is in memory."""

    def __init__(self) -> None:
        self._slot = threading.Lock()
        self._edit = threading.local()

    @contextmanager
    def edit(self) -> Iterator[None]:
        """Frame one edit in this thread, from its request to its decoded image."""
        self._edit.holds = False
        try:
            yield
        finally:
            if self._edit.holds:
                self._slot.release()
            del self._edit.holds

    def wait(self, seconds: float) -> None:
        """Take the lock for a large answer. Raises TimeoutError if it stays taken."""
        if getattr(self._edit, "holds", True):  # locked already, or the request is no edit
            return
        if not self._slot.acquire(timeout=max(0.0, seconds)):
            raise TimeoutError("other large answers are being processed")
        self._edit.holds = True


#: The lock of this process.
LARGE = LargeAnswers()
M_ARENA_MAX = -8


def give_memory_back() -> None:
    """Limit malloc arenas, so that threads share freed memory of large images.

    Eight threads that decode one after the other take 440 MB then, and 930 MB without (glibc).
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)
