"""What can go wrong under a job: the database or storage is away, or the run must pause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import structlog
import tenacity
from botocore.exceptions import BotoCoreError
from django.db import InterfaceError, OperationalError, connection

from evaluation.errors import UserFacingError
from leaderboard.jobs import control
from leaderboard.jobs.shutdown import asked_to_stop
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


class PausesRun(UserFacingError):
    """An error for which the run pauses; without `seconds` a person resumes it."""

    reason: ClassVar[str]
    seconds: ClassVar[float | None] = None


class StorageError(PausesRun):
    """A picture could not be written or read."""

    reason, seconds = "storage", STORAGE_REST


class PictureGone(Exception):
    """A picture that a chain needs is no longer there: the chain is lost, by our fault."""


@contextmanager
def pausing(run: Run, doing: str) -> Iterator[None]:
    """Pauses the run for what goes wrong inside, instead of raising it.

    Only a database that is away is raised: the recovery sweep enqueues the job again. An error
    of any other kind would come back for ever, unseen.
    """
    try:
        yield
    except DATABASE_AWAY:
        raise
    except PausesRun as error:
        control.pause(run, error.reason, str(error), error.seconds)
    except Exception as error:
        log.exception("job failed", run=run.pk, doing=doing)
        control.pause(run, "internal", f"{doing}: {type(error).__name__}: {error}")


def stored_safely(access: Callable[[], T]) -> T:
    """What `access` returns; whatever goes wrong with storage costs the chain or pauses the run.

    A store that is only being started again is waited for.
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
        raise PictureGone(f"A picture is gone from storage: {error.filename or error}") from error
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise StorageError(f"Pictures cannot be stored or read: {why}") from error


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
