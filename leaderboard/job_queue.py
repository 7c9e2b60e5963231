"""Jobs in Redis. They only wake workers: the state of all work is in the database.

A lost job delays its run by a few seconds, because the recovery sweep enqueues it again.
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
#: Jobs that a visitor waits for, which run first.
URGENT = frozenset({SCORE_UPLOADED})
#: Jobs enqueued at the front of the queue. They include scoring, so that runs join the board early.
AT_FRONT = URGENT | {SCORE}
#: Seconds after which the worker kills a job of this kind; jobs of other kinds end by themselves. A
#: probe (a test of an endpoint) usually ends earlier, at its own deadline.
JOB_SECONDS = {PROBE: 600}
#: The only functions that workers call, even if someone writes other names to Redis.
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
#: After Redis fails, a process waits this long before it tries again.
RETRY_SECONDS = 5.0

log = structlog.get_logger(__name__)
_retry_at = 0.0


def enqueue(run_id: int, kind: str, queue_name: str, copies: int = 1) -> None:
    """Enqueue up to `copies` jobs of this kind after the transaction is committed."""
    transaction.on_commit(lambda: _enqueue(run_id, kind, queue_name, copies))


def _enqueue(run_id: int, kind: str, queue_name: str, copies: int) -> None:
    global _retry_at
    if time.monotonic() < _retry_at:
        return
    try:
        queue = get_queue(queue_name)
        waiting = {job_id.rpartition("-")[0] for job_id in queue.get_job_ids()}
        # Copies beyond the number of workers would only wait.
        for copy in range(min(copies, max(1, Worker.count(queue=queue)))):
            name = f"{kind}-{run_id}-{copy}"
            if name not in waiting:
                queue.enqueue_call(
                    f"leaderboard.jobs.{kind}",
                    args=(run_id,),
                    # At most one job with this name waits, but each job needs a unique id. When a
                    # job ends, rq deletes its id, and would also delete a waiting job with that id.
                    job_id=f"{name}-{uuid4().hex}",
                    at_front=kind in AT_FRONT,
                    timeout=JOB_SECONDS.get(kind, -1),
                    result_ttl=0,
                    failure_ttl=3600,
                )
    except RedisError as error:
        log.warning("not enqueued", run=run_id, kind=kind, error=type(error).__name__)
        # A job must not wait for Redis, because meanwhile its leases (claims to chains) could lapse.
        _retry_at = time.monotonic() + RETRY_SECONDS


def should_yield(run_id: int, queue_name: str, *, turn_is_over: bool) -> bool:
    """Return True if a run's job should end to let other jobs run.

    It should end immediately for an urgent job, and for other jobs if its turn is over. Without
    Redis it continues.
    """
    try:
        ids = get_queue(queue_name).get_job_ids()
    except RedisError:
        return False
    waiting = {tuple(job_id.split("-")[:2]) for job_id in ids}
    if any(kind in URGENT for kind, _ in waiting):
        return True
    return turn_is_over and bool(waiting - {(PLAY, str(run_id)), (SCORE, str(run_id))})


def workers(queue_name: str) -> int | None:
    """Return the number of workers of a queue, or None if Redis does not answer."""
    try:
        return Worker.count(queue=get_queue(queue_name))
    except RedisError:
        return None


def token_of(job_id: str) -> UUID:
    """Return the token in a job's id, which marks the rows that the job has claimed."""
    return UUID(job_id.rpartition("-")[2])


def current_token() -> UUID:
    """Return the token of the job in this process, or a new token outside a job."""
    job_id = os.environ.get("RQ_JOB_ID")
    return token_of(job_id) if job_id else uuid4()


def connect(queue_name: str) -> Redis:
    """Return a connection that fails without retries if Redis is down."""
    redis = django_rq.get_connection(queue_name)
    redis.set_retry(Retry(NoBackoff(), 0))
    redis.connection_pool.connection_kwargs |= {"socket_connect_timeout": 2, "socket_timeout": 5}
    return redis


@cache
def get_queue(name: str) -> Queue:
    """Return a queue whose calls fail without retries if Redis is down."""
    return django_rq.get_queue(name, commit_mode="auto", connection=connect(name))
