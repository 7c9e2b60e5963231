"""Wake workers through Redis; the database has the work to do.

A job that is lost costs a few seconds, never a trip: the recovery sweep enqueues it again.
"""

from __future__ import annotations

import os
import time
from functools import cache
from uuid import UUID, uuid4

import django_rq
import structlog
from django.db import transaction
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from rq import Queue, Worker

#: Tests of submitted endpoints have a separate queue, so that a slow endpoint delays no run.
EDITS, GPU, PROBES = "edits", "gpu", "probes"
PLAY = "play"
SCORE = "score"
PROBE = "probe"
SCORE_UPLOADED = "score_uploaded_chain"
EXPORT = "export"
COLLECT_GARBAGE = "collect_garbage"
RECOVER = "recover_images"
CHECK_CONTRIBUTED = "check_contributed_run"
COUNT_VOTES = "count_votes"
#: A visitor waits for these: they go first.
URGENT = frozenset({SCORE_UPLOADED})
#: Scoring goes before further playing, so that runs join the board early.
FIRST = URGENT | {SCORE}
#: Seconds after which the worker kills a job; others end by themselves. A test has an earlier
#: deadline of its own.
JOB_SECONDS = {PROBE: 600}
#: The only functions that a worker calls: a writer to Redis cannot request others.
FUNCTIONS = frozenset(
    f"leaderboard.jobs.{kind}"
    for kind in (
        PLAY,
        SCORE,
        PROBE,
        SCORE_UPLOADED,
        EXPORT,
        COLLECT_GARBAGE,
        RECOVER,
        CHECK_CONTRIBUTED,
        COUNT_VOTES,
    )
)
#: After a failure of Redis, a process does not retry for this long.
SILENT_SECONDS = 5.0

log = structlog.get_logger(__name__)
_silent_until = 0.0


def enqueue(run_id: int, kind: str, queue_name: str, copies: int = 1) -> None:
    """Enqueue up to `copies` jobs of this kind once the transaction is committed."""
    transaction.on_commit(lambda: _enqueue(run_id, kind, queue_name, copies))


def _enqueue(run_id: int, kind: str, queue_name: str, copies: int) -> None:
    global _silent_until
    if time.monotonic() < _silent_until:
        return
    try:
        queue = _queue(queue_name)
        waiting = {job_id.rpartition("-")[0] for job_id in queue.get_job_ids()}
        # More copies than workers would only wait for each other.
        for copy in range(min(copies, max(1, Worker.count(queue=queue)))):
            name = f"{kind}-{run_id}-{copy}"
            if name not in waiting:
                queue.enqueue_call(
                    f"leaderboard.jobs.{kind}",
                    args=(run_id,),
                    # One job of a name waits at a time, but every job has a unique id: the end
                    # of a running job would remove the next one of the same id.
                    job_id=f"{name}-{uuid4().hex}",
                    at_front=kind in FIRST,
                    timeout=JOB_SECONDS.get(kind, -1),
                    result_ttl=0,
                    failure_ttl=3600,
                )
    except RedisError as error:
        log.warning("not enqueued", run=run_id, kind=kind, error=type(error).__name__)
        # A job that waits for a dead Redis does not renew its leases.
        _silent_until = time.monotonic() + SILENT_SECONDS


def should_leave(run_id: int, queue_name: str, *, turn_is_over: bool) -> bool:
    """Return True if a run's job should make room.

    At once for a visitor, else after its turn. False if Redis does not answer.
    """
    try:
        ids = _queue(queue_name).get_job_ids()
    except RedisError:
        return False
    waiting = {tuple(job_id.split("-")[:2]) for job_id in ids}
    if any(kind in URGENT for kind, _ in waiting):
        return True
    return turn_is_over and bool(waiting - {(PLAY, str(run_id)), (SCORE, str(run_id))})


def workers(queue_name: str) -> int | None:
    """Count the workers of a queue; None if Redis does not answer."""
    try:
        return Worker.count(queue=_queue(queue_name))
    except RedisError:
        return None


def token_of(job_id: str) -> UUID:
    """Return the fencing token of a job; its parent uses it to undo the job's claims."""
    return UUID(job_id.rpartition("-")[2])


def own_token() -> UUID:
    """Return the token of the job that runs in this process."""
    job_id = os.environ.get("RQ_JOB_ID")
    return token_of(job_id) if job_id else uuid4()


def connect(queue_name: str) -> Redis:
    """Return a connection that fails at once if Redis is down, without retries."""
    redis = django_rq.get_connection(queue_name)
    redis.set_retry(Retry(NoBackoff(), 0))
    redis.connection_pool.connection_kwargs |= {"socket_connect_timeout": 2, "socket_timeout": 5}
    return redis


@cache
def _queue(name: str) -> Queue:
    return django_rq.get_queue(name, commit_mode="auto", connection=connect(name))
