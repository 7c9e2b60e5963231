"""Handle stop requests, leases (claims that lapse), and an unavailable database or storage."""

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

DATABASE_UNAVAILABLE = (OperationalError, InterfaceError)
#: Time without a database after which a job gives up; other jobs then claim its chains.
PATIENCE_SECONDS = 60.0
#: Time without storage after which the run pauses. Waiting may save an answer that was paid for.
STORAGE_PATIENCE_SECONDS = 30.0
#: Time after which a run that was paused because of storage resumes by itself.
STORAGE_PAUSE_SECONDS = 300.0
PR_SET_PDEATHSIG = 1

# Stops.

_stop = threading.Event()


def stop_requested() -> bool:
    """Return True if this job should release its chains and end."""
    return _stop.is_set()


def stop_on_sigterm() -> None:
    """Make SIGTERM stop the job of this process."""

    def on_signal(signum: int, frame: FrameType | None) -> None:
        _stop.set()

    signal.signal(signal.SIGTERM, on_signal)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before the call above


# Leases.


@contextmanager
def finalising(run: Run, token: UUID) -> Iterator[bool]:
    """Claim the run while its results are computed; yield False if another job has claimed it."""
    if not run.claim_finalising(token):
        yield False
        return
    try:
        with renewing(lambda: run.claim_finalising(token)):
            yield True
    finally:
        retry_database(lambda: Run.objects.release_finalising(token))


@contextmanager
def renewing(renew: Callable[[], object]) -> Iterator[None]:
    """Call `renew` three times per lease, in a thread, until the block ends."""
    done = threading.Event()

    def renew_until_done() -> None:
        while not done.wait(settings.LEASE_SECONDS / 3):
            with suppress(DatabaseError):  # the next attempt may succeed
                renew()
            connection.close()  # each thread has its own connection

    thread = threading.Thread(target=renew_until_done, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


# Errors.


def pause_for(run: Run, doing: str, error: Exception) -> None:
    """Pause the run because of an error, so that the error does not recur unnoticed.

    Do not call this if the database is unavailable: the recovery sweep enqueues the job again.
    """
    if isinstance(error, Paused):
        control.pause(run, error.reason, str(error), error.seconds)
        return
    log.error("job failed", run=run.pk, doing=doing, exc_info=error)
    control.pause(run, "internal", f"{doing}: {type(error).__name__}: {error}")


def retry_storage(access: Callable[[], T]) -> T:
    """Read or write an image; wait while storage restarts.

    Raises ImageGone, which ends the chain, or Paused.
    """
    patience = tenacity.stop_before_delay(STORAGE_PATIENCE_SECONDS)
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_is_temporary),
        stop=lambda state: stop_requested() or patience(state),
        wait=tenacity.wait_exponential(0.25, max=5),
        reraise=True,
    )
    try:
        return retrying(access)
    except FileNotFoundError as error:
        raise ImageGone(f"An image is gone from storage: {error.filename or error}") from error
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        message = f"Images cannot be stored or read: {why}"
        raise Paused(message, "storage", STORAGE_PAUSE_SECONDS) from error


def _is_temporary(error: BaseException) -> bool:
    """Return True for a temporary storage error; a full disk or a wrong key is permanent."""
    if isinstance(error, OSError):
        return isinstance(error, (ConnectionError, TimeoutError))
    response: Any = getattr(error, "response", None)  # of botocore's ClientError
    if isinstance(response, dict):
        status: int = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status == 429 or status >= 500
    return isinstance(error, BotoCoreError)


def retry_database(write: Callable[[], T]) -> T:
    """Return the result of `write`; retry while the database is locked or unavailable."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_can_reconnect),
        stop=tenacity.stop_before_delay(PATIENCE_SECONDS),
        wait=tenacity.wait_exponential(0.1, max=5),
        before_sleep=_reconnect,
        reraise=True,
    )(write)


def _can_reconnect(error: BaseException) -> bool:
    # A transaction loses its earlier writes, so the caller must begin it again.
    return isinstance(error, DATABASE_UNAVAILABLE) and not connection.in_atomic_block


def _reconnect(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.warning("database unreachable, retrying", error=str(error).strip()[:200])
    connection.close()
