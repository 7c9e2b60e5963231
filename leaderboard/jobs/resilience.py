"""Survive what goes wrong under a job: stops, lapsing leases, a database or storage that is away."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar
from uuid import UUID

import structlog
import tenacity
from botocore.exceptions import BotoCoreError
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection

from evaluation.play.store import ImageGone, Paused
from leaderboard.jobs import control
from leaderboard.models import Run

log = structlog.get_logger(__name__)
T = TypeVar("T")

DATABASE_AWAY = (OperationalError, InterfaceError)
#: How long a database may be away before the job gives up; its chains are then taken over.
PATIENCE_SECONDS = 60.0
#: How long storage may be away before the run pauses: an answer that cannot be kept is paid twice.
STORAGE_PATIENCE_SECONDS = 30.0
#: Seconds until a run that storage paused tries again by itself.
STORAGE_REST = 300.0
PR_SET_PDEATHSIG = 1

# Stops.

_stop = threading.Event()


def asked_to_stop() -> bool:
    """Whether this job should put its chains back and end."""
    return _stop.is_set()


def listen() -> None:
    """From now on SIGTERM asks the job of this process to stop."""

    def on_signal(signum: int, frame: FrameType | None) -> None:
        _stop.set()

    signal.signal(signal.SIGTERM, on_signal)


def die_with_parent(parent: int) -> None:
    """From now on this process is killed when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it ended before it could be bound to


# Leases.


@contextmanager
def claimed(run: Run, token: UUID) -> Iterator[bool]:
    """Whether the run is ours to finalise; if so it stays ours until the block ends."""
    if not run.claim_finalising(token):
        yield False
        return
    try:
        with renewed(lambda: run.claim_finalising(token)):
            yield True
    finally:
        retry_database(lambda: Run.objects.release_finalising(token))


@contextmanager
def renewed(renew: Callable[[], object]) -> Iterator[None]:
    """Calls `renew` three times per lease, in a thread of its own, until the block ends."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(settings.LEASE_SECONDS / 3):
            with suppress(DatabaseError):  # the next time may fare better
                renew()
            connection.close()  # a thread has one of its own

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


# Errors.


def pause_for(run: Run, doing: str, error: Exception) -> None:
    """Pause the run for an error: raised, it would come back for ever, unseen.

    A database that is away is no such error: the recovery sweep enqueues the job again.
    """
    if isinstance(error, Paused):
        control.pause(run, error.reason, str(error), error.seconds)
        return
    log.error("job failed", run=run.pk, doing=doing, exc_info=error)
    control.pause(run, "internal", f"{doing}: {type(error).__name__}: {error}")


def stored_safely(access: Callable[[], T]) -> T:
    """Read or write an image; storage that is only being started again is waited for.

    Raises ImageGone, which costs the chain, or Paused.
    """
    patience = tenacity.stop_before_delay(STORAGE_PATIENCE_SECONDS)
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_may_heal),
        stop=lambda state: asked_to_stop() or patience(state),
        wait=tenacity.wait_exponential(0.25, max=5),
        reraise=True,
    )
    try:
        return retrying(access)
    except FileNotFoundError as error:
        raise ImageGone(f"A picture is gone from storage: {error.filename or error}") from error
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        message = f"Pictures cannot be stored or read: {why}"
        raise Paused(message, "storage", STORAGE_REST) from error


def _may_heal(error: BaseException) -> bool:
    """Whether the store is away, or unwell by its own words; a full disk or a wrong key stays so."""
    if isinstance(error, OSError):
        return isinstance(error, (ConnectionError, TimeoutError))
    answered: Any = getattr(error, "response", None)  # as the client of S3 raises it
    if isinstance(answered, dict):
        status: int = answered.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status == 429 or status >= 500
    return isinstance(error, BotoCoreError)


def retry_database(write: Callable[[], T]) -> T:
    """What `write` returns, tried again while the database is locked or away."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_can_reconnect),
        stop=tenacity.stop_before_delay(PATIENCE_SECONDS),
        wait=tenacity.wait_exponential(0.1, max=5),
        before_sleep=_reconnect,
        reraise=True,
    )(write)


def _can_reconnect(error: BaseException) -> bool:
    # Inside a transaction what was written before is lost: whoever began it must begin again.
    return isinstance(error, DATABASE_AWAY) and not connection.in_atomic_block


def _reconnect(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.warning("database away, trying again", error=str(error).strip()[:200])
    connection.close()
