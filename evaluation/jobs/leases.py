"""Hold on to a run while it is finalised, which may take longer than a lease."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, connection

from evaluation.jobs.job_errors import retry_database
from leaderboard.models import Run


@contextmanager
def claimed(run: Run, token: UUID) -> Iterator[bool]:
    """Whether the run is ours to finalise; if so it stays ours until the block ends."""
    if not run.claim_finalising(token):
        yield False
        return
    done = threading.Event()

    def renew() -> None:
        while not done.wait(settings.LEASE_SECONDS / 3):
            with suppress(DatabaseError):  # the next time may fare better
                run.claim_finalising(token)
            connection.close()  # a thread has one of its own

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield True
    finally:
        done.set()
        thread.join()
        retry_database(lambda: Run.objects.release_finalising(token))
