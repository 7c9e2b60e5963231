"""What large pictures may take of a worker's memory."""

from __future__ import annotations

import ctypes
import math
import sys
from functools import cache

#: Larger pictures are measured one at a time, and by tiles: what networks and metrics make of
#: them is some 200 bytes for each of their pixels.
LARGE_PIXELS = 1_500_000
#: glibc's name for "blocks from this size on are the system's again once they are freed".
M_MMAP_THRESHOLD = -3
BLOCK = 2 * 2**20


def is_large(size: tuple[int, int]) -> bool:
    return math.prod(size) > LARGE_PIXELS


@cache
def return_freed_memory() -> bool:
    """Have this process give large blocks back when they are freed; whether it can.

    glibc keeps them otherwise, between small ones that live on: a process that measured one
    large picture stays as large as it ever was. It costs a few per cent of the time, so only
    processes that meet such pictures do it.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        return bool(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, BLOCK))
    except (OSError, AttributeError):  # another C library
        return False
