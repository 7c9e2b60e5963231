"""Wakes workers through Redis. What there is to do stands in the database.

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

#: Tests of submitted endpoints have a queue of their own: a slow endpoint holds up no run.
EDITS, GPU, PROBES = "edits", "gpu", "probes"
PLAY = "play"
SCORE = "score"
PROBE = "probe"
SCORE_UPLOADED = "score_uploaded_chain"
EXPORT = "export"
COLLECT_GARBAGE = "collect_garbage"
RECOVER = "recover_pictures"
CHECK_CONTRIBUTED = "check_contributed_run"
COUNT_VOTES = "count_votes"
#: Somebody looks at a page and waits for these: they go first.
URGENT = frozenset({SCORE_UPLOADED})
#: What is played is scored before more is played: rows come onto the board one by one.
FIRST = URGENT | {SCORE}
#: Seconds after which a job is ended from outside; others end by themselves. A test has a
#: deadline of its own, long before.
JOB_SECONDS = {PROBE: 600}
#: All that a worker calls: whoever can write to Redis can ask for these, and for nothing else.
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
#: After Redis did not answer, a process leaves it alone for this long.
SILENT_SECONDS = 5.0

log = structlog.get_logger(__name__)
_silent_until = 0.0


def enqueue(run_id: int, kind: str, queue_name: str, copies: int = 1) -> None:
    """Have up to `copies` jobs of this kind wait for workers, once the transaction is through."""
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
                    # One of a name waits at a time, but every job has an id of its own: the
                    # end of a running job would take the next one of the same id with it.
                    job_id=f"{name}-{uuid4().hex}",
                    at_front=kind in FIRST,
                    timeout=JOB_SECONDS.get(kind, -1),
                    result_ttl=0,
                    failure_ttl=3600,
                )
    except RedisError as error:
        log.warning("not enqueued", run=run_id, kind=kind, error=type(error).__name__)
        # A job that waits for a dead Redis keeps no leases meanwhile.
        _silent_until = time.monotonic() + SILENT_SECONDS


def should_leave(run_id: int, queue_name: str, *, turn_is_over: bool) -> bool:
    """Tell if a run's job should make room: at once for a visitor, else after its turn.

    False when Redis does not answer.
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
    """The fencing token of a job: known from outside, so that its parent can undo its claims."""
    return UUID(job_id.rpartition("-")[2])


def own_token() -> UUID:
    """The token of the job that runs in this process."""
    job_id = os.environ.get("RQ_JOB_ID")
    return token_of(job_id) if job_id else uuid4()


def in_worker() -> bool:
    """Tell if this process was made by a worker for one job."""
    return "RQ_JOB_ID" in os.environ


def connect(queue_name: str) -> Redis:
    """A connection that says at once when Redis is away, instead of trying for seconds."""
    redis = django_rq.get_connection(queue_name)
    redis.set_retry(Retry(NoBackoff(), 0))
    redis.connection_pool.connection_kwargs |= {"socket_connect_timeout": 2, "socket_timeout": 5}
    return redis


@cache
def _queue(name: str) -> Queue:
    return django_rq.get_queue(name, commit_mode="auto", connection=connect(name))
