"""The pace of calls to an endpoint: one row in the database for all workers.

Start times keep calls within the limit per minute. Rate limits and repeated failures block every
worker's calls, longer each time; an answer resets the count of failures.
"""

from __future__ import annotations

import random
import time
from datetime import datetime, timedelta

from django.db.models.functions import Now

from evaluation.errors import EditorError, Fault
from leaderboard.models import EditingModel, Pace

#: After this many failures in a row, any temporary fault blocks calls.
BREAKER = 5
#: Faults of the endpoint as a whole, which may pass by themselves.
TEMPORARY_FAULTS = frozenset(
    {Fault.UNREACHABLE, Fault.TIMEOUT, Fault.SERVER_ERROR, Fault.RATE_LIMITED}
)
LONGEST_BLOCK = 6 * 3600.0
LONGEST_PAUSE = 3600.0
#: Start times are assigned this far ahead, in seconds.
AHEAD = 1.0


class Pacer:
    """One job's view of its endpoint's pace.

    Times in the row are the database's: a worker with a wrong clock delays no other worker.
    """

    def __init__(self, editing_model: EditingModel) -> None:
        self.editing_model = editing_model
        #: Primary key of the model that owns the pace row; models may share an endpoint.
        self.owner = editing_model.peers[0]
        self.failures = 0
        self.fault: Fault | None = None
        self._blocked_until = 0.0  # on the monotonic clock

    @property
    def seconds_blocked(self) -> float:
        """The seconds until calls are allowed again."""
        return max(0.0, self._blocked_until - time.monotonic())

    def update(self, blocked_until: datetime | None, failures: int, now: datetime) -> None:
        """Take over the row's values, read at database time `now`."""
        self.failures = failures
        left = (blocked_until - now).total_seconds() if blocked_until else 0.0
        self._blocked_until = time.monotonic() + left

    def note(self, error: EditorError | None) -> None:
        """Record the end of a call, in the transaction that saves the call.

        Errors that concern only one request do not change the pace.
        """
        if error is None:
            if self.failures:
                pace, now = self._row()
                pace.failures_in_a_row = 0
                self._save(pace, now)
            return
        if error.fault not in TEMPORARY_FAULTS:
            return
        pace, now = self._row()
        if self.seconds_blocked <= 0:
            # Calls in flight when the block began do not count again.
            pace.failures_in_a_row += 1
            self.fault = error.fault
        pace.last_error = error.message[:500]
        until = now + timedelta(seconds=_block_seconds(error, pace.failures_in_a_row))
        pace.blocked_until = max(pace.blocked_until or until, until)
        self._save(pace, now)

    def reserve(self) -> float | None:
        """Reserve the next start time and return the delay; None if blocked or beyond `AHEAD`."""
        if self.seconds_blocked > 0:
            return None
        limit = self.editing_model.calls_per_minute
        if not limit:
            return 0.0
        pace, now = self._row()
        start = max(now, pace.next_call_at or now)
        delay = (start - now).total_seconds()
        if delay > AHEAD:
            return None
        pace.next_call_at = start + timedelta(seconds=60 / limit)
        pace.save(update_fields=["next_call_at"])
        return delay

    def _save(self, pace: Pace, now: datetime) -> None:
        pace.save()
        self.update(pace.blocked_until, pace.failures_in_a_row, now)

    def _row(self) -> tuple[Pace, datetime]:
        """Return the locked row and the time by the database's clock."""
        rows = Pace.objects.select_for_update()
        pace = rows.get_or_create(editing_model_id=self.owner)[0]
        return pace, Pace.objects.filter(pk=pace.pk).values_list(Now(), flat=True).get()


def pause_seconds(pacer: Pacer) -> float:
    """Return how long a failing endpoint pauses its runs: a minute, then longer."""
    rounds = min(pacer.failures // BREAKER, 7)
    return max(pacer.seconds_blocked, min(60 * 2.0 ** max(0, rounds - 1), LONGEST_PAUSE))


def _block_seconds(error: EditorError, failures: int) -> float:
    """Return the seconds without calls after this error."""
    is_limit = error.fault is Fault.RATE_LIMITED
    if is_limit and error.retry_after is None:
        return _backoff(failures)
    # After repeated failures a Retry-After of 0 is not trusted.
    wait = _backoff(failures - BREAKER + 2) if failures >= BREAKER else 0.0
    if is_limit and error.retry_after is not None:
        return min(max(wait, error.retry_after), LONGEST_BLOCK)
    return wait


def _backoff(round_: int) -> float:
    """Return a wait that doubles each round, with jitter."""
    return min(2.0 ** min(round_, 20), LONGEST_BLOCK) * random.uniform(0.8, 1.2)
