"""A worker that is asked to stop asks its job, which ends between two edits."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from types import FrameType

_stop = threading.Event()


def asked_to_stop() -> bool:
    """Whether this job should put its chains back and end."""
    return _stop.is_set()


def listen() -> None:
    """From now on SIGTERM asks the job of this process to stop."""

    def on_signal(signum: int, frame: FrameType | None) -> None:
        _stop.set()

    signal.signal(signal.SIGTERM, on_signal)


PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """From now on this process is killed when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it ended before it could be bound to
