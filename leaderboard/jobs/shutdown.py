"""A worker that is asked to stop asks its job, which ends between two edits."""

from __future__ import annotations

import signal
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
