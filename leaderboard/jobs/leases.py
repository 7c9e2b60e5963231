"""Hold on to what may take longer than a lease."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, connection

from leaderboard.jobs.job_errors import retry_database
from leaderboard.models import Run


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
