"""Several processes for one play job: the threads of one Python process share one processor."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from uuid import UUID, uuid5

import structlog
from django.conf import settings
from django.db import connections

from leaderboard.jobs.job_errors import retry_database
from leaderboard.models import Chain

log = structlog.get_logger(__name__)

PROCESSORS = os.cpu_count() or 1
PR_SET_PDEATHSIG = 1


def processes_for(calls: int) -> int:
    """How many processes should share so many calls in flight."""
    return max(1, min(PROCESSORS, calls // settings.CALLS_PER_PROCESS))


def tokens(token: UUID) -> Iterator[UUID]:
    """The tokens a job may hold: its own, and one for each process it may fork."""
    yield token
    for number in range(1, PROCESSORS):
        yield uuid5(token, str(number))


def in_processes(count: int, token: UUID, play: Callable[[UUID], None]) -> None:
    """Call `play` with a token of its own in each of `count` processes, this one among them.

    Returns when all have ended. What a process held that died is put back.
    """
    connections.close_all()  # a connection that two processes share is broken in both
    mine, *others = list(tokens(token))[:count]
    forked: dict[int, UUID] = {}
    for other in others:
        parent, pid = os.getpid(), os.fork()
        if not pid:
            _as_fork(parent, play, other)
        forked[pid] = other
    try:
        play(mine)
    finally:
        for pid, other in forked.items():
            if status := os.waitpid(pid, 0)[1]:
                log.warning("a process of the job died", status=status)
                retry_database(partial(Chain.objects.release, other))


def _as_fork(parent: int, play: Callable[[UUID], None], token: UUID) -> None:
    status = 1
    try:
        die_with_parent(parent)
        random.seed()  # or all would come back from a pause at the same moment
        play(token)
        status = 0
    except Exception:
        log.exception("play failed")
    finally:
        connections.close_all()
        os._exit(status)  # nothing of the parent's is to be ended here


def die_with_parent(parent: int) -> None:
    """From now on this process is killed when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it ended before it could be bound to
