"""The worker process: rq's, made for runs that survive anything.

It serves exactly one queue, waits for Redis instead of dying without it, looks
by itself for work whose job was lost, and its work horse (rq's word for the process
of one job) dies with it.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import time
from contextlib import suppress
from typing import Any
from uuid import uuid4

import django_rq
import structlog
from django.conf import settings
from django.db import connections
from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, Worker, worker_registration
from rq.exceptions import NoSuchJobError, StopRequested
from rq.job import Job

from evaluation.metrics import METRICS, load_metric
from evaluation.torch_compat import ready_torchvision
from leaderboard import job_queue, jobs
from leaderboard.jobs import resilience
from leaderboard.models import Chain, Run

log = structlog.get_logger(__name__)
#: What every job needs that reads, audits and keeps pictures.
PICTURES = (
    *(f"PIL.{name}ImagePlugin" for name in ("Bmp", "Gif", "Jpeg", "Png", "Ppm", "WebP")),
    *("convergebench_site.storage", "cv2", "encodings.idna", "numpy.ma"),
)
#: What a score job needs beside the metrics; to import it takes two seconds.
STATISTICS = ("scipy.stats", "scipy.optimize", "skimage.color")


class KnownJob(Job):
    """A job that names one of our functions; any other is refused, loudly, and thrown away.

    rq imports whatever dotted name stands in Redis. Here what is not ours does not even become
    a job, so that no code of rq's sees its function, callbacks or arguments.
    """

    def restore(self, raw_data: Any) -> None:
        try:
            super().restore(raw_data)
            refused = self._stranger()
        except Exception as error:  # what stands there was not written by us
            refused = f"unreadable ({type(error).__name__})"
        if refused:
            log.critical("a job that is not ours was in the queue", job=self.id, calls=refused)
            with suppress(RedisError):
                self.connection.delete(self.key)
            raise NoSuchJobError(f"job {self.id} is not ours")

    def _stranger(self) -> str:
        """What there is in it that no job of ours has; empty when it is ours."""
        if self.func_name not in job_queue.FUNCTIONS or self.instance is not None:
            return f"{self.func_name}"[:200]
        calls = (
            *(self._success_callback_name, self._failure_callback_name),
            *(self._stopped_callback_name, *(self.webhooks or ())),
        )
        if any(calls):
            return f"callbacks of {self.func_name}"
        if self.kwargs or [type(arg) for arg in self.args] != [int]:
            return f"other arguments of {self.func_name}"
        return ""


class RunWorker(Worker):
    """Serves the queue `edits`, `probes` or `gpu`."""

    # Logs of rq itself are warnings and errors only; what a job does, the job says.
    log_result_lifespan = False

    def __init__(self, queue_name: str) -> None:
        # One queue, or rq's crash-safe pop is off. The serializer must be the queue's own.
        super().__init__(
            [django_rq.get_queue(queue_name, connection=job_queue.connect(queue_name))],
            worker_ttl=30,
            job_monitoring_interval=5,
            maintenance_interval=min(15, int(settings.SWEEP_SECONDS)),
            serializer=settings.RQ_QUEUES[queue_name]["SERIALIZER"],
            queue_class=django_rq.queues.DjangoRQ,
            job_class=KnownJob,
            log_job_description=False,
        )
        self._swept = 0.0

    # Without Redis.

    def _set_ip_address(self, connection: Redis) -> None:
        """rq asks Redis for it, and nobody asks for it later."""
        self.ip_address = "unknown"

    def work(self, *args: Any, **options: Any) -> bool:
        """Serve until told to stop; a Redis that goes away is waited for."""
        with suppress(StopRequested):  # rq itself expects it only while it waits for a job
            while self._has_redis():
                try:
                    super().work(*args, **options)
                except RedisError as error:
                    log.warning("redis is away", error=type(error).__name__)
                self.name = uuid4().hex  # the old name may still be known as alive
        return True

    def _has_redis(self) -> bool:
        """Waits for Redis; False when told to stop meanwhile, or before."""
        self._install_signal_handlers()
        waiting = False
        while not self._shutdown_requested_date:
            with suppress(RedisError):
                if self.connection.ping():
                    return True
            if not waiting:
                waiting = True
                log.warning("waiting for redis")
            self.sweep_if_due()
            time.sleep(0.5)
        return False

    def _shutdown(self) -> None:
        self._stop_requested = True  # what it interrupts may take the exception for its own
        with suppress(RedisError):
            super()._shutdown()

    def subscribe(self) -> None:
        """No command channel: its thread would live through every fork. Runs are stopped by
        their state in the database."""

    @property
    def dequeue_timeout(self) -> int:
        """Seconds an idle worker waits for a job before it looks for work itself."""
        return max(1, min(self.worker_ttl // 2, int(settings.SWEEP_SECONDS)))

    def run_maintenance_tasks(self) -> None:
        super().run_maintenance_tasks()
        self.sweep_if_due()

    # While a job runs.

    def execute_job(self, job: Job, queue: Queue) -> None:
        try:
            super().execute_job(job, queue)
        except RedisError as error:
            log.warning("redis is away", job=job.id, error=type(error).__name__)
            if self.horse_pid:
                self.wait_for_horse()
                self._horse_pid = 0

    def set_current_job_working_time(self, *args: Any, **options: Any) -> None:
        with suppress(RedisError):
            super().set_current_job_working_time(*args, **options)

    def maintain_heartbeats(self, job: Job) -> None:
        """Every few seconds while a job runs: rq's own idle loop does not turn then."""
        with suppress(RedisError):
            super().maintain_heartbeats(job)
        self.sweep_if_due()

    def handle_work_horse_killed(self, job: Job, retpid: int, ret_val: int, rusage: Any) -> None:
        """Put back what the dead process had claimed, at once and without waiting for its lease."""
        super().handle_work_horse_killed(job, retpid, ret_val, rusage)
        token = job_queue.token_of(job.id)
        try:
            chains = Chain.objects.release(token)
            chains += Chain.objects.release_scores(token)
            Run.objects.release_finalising(token)
            log.warning("work horse died", job=job.id, chains=chains)
            self._sweep()
        except Exception:  # the recovery sweep does the same a little later
            log.exception("chains not put back", job=job.id)

    def handle_warm_shutdown_request(self) -> None:
        """Ask the running job to end between two edits."""
        super().handle_warm_shutdown_request()
        if self.horse_pid:
            with suppress(ProcessLookupError):
                try:
                    os.killpg(self.horse_pid, signal.SIGTERM)
                except ProcessLookupError:  # too young to lead a group
                    os.kill(self.horse_pid, signal.SIGTERM)

    # The work horse.

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        connections.close_all()  # a connection that two processes share is broken in both
        self._parent_pid = os.getpid()
        super().fork_work_horse(job, queue)

    def main_work_horse(self, job: Job, queue: Queue) -> None:
        resilience.die_with_parent(self._parent_pid)
        super().main_work_horse(job, queue)

    def setup_work_horse_signals(self) -> None:
        super().setup_work_horse_signals()
        resilience.listen()

    # Work whose job was lost.

    def sweep_if_due(self) -> None:
        if not self.is_horse and time.monotonic() - self._swept >= settings.SWEEP_SECONDS:
            self._sweep()

    def _sweep(self) -> None:
        self._swept = time.monotonic()
        try:
            self._register_again()
            jobs.sweep()
        except StopRequested:
            raise
        except RedisError:
            pass
        except Exception:  # the next sweep may fare better; the worker must live
            log.exception("sweep failed")
        finally:
            connections.close_all()

    def _register_again(self) -> None:
        """Be known as alive, also after somebody emptied Redis."""
        if self.birth_date and not self.connection.sismember(self.redis_workers_keys, self.key):
            with self.connection.pipeline() as pipeline:
                pipeline.hset(self.key, mapping=self.serialize())
                worker_registration.register(self, pipeline)
                pipeline.expire(self.key, self.worker_ttl + 60)
                pipeline.execute()


def preload(queue_name: str) -> None:
    """Import what jobs need before the first fork, so that each starts at once.

    Only imports: a CUDA context or running threads would not survive the fork. None of it is ever
    garbage: the collector of every fork would walk over it again and again, while all threads
    wait, and copy the pages that forks share.
    """
    try:
        for module in PICTURES:
            importlib.import_module(module)
        if queue_name == job_queue.GPU:
            for module in STATISTICS:
                importlib.import_module(module)
            for name in settings.METRICS or METRICS:
                metric = load_metric(name)
                # What nothing can use would only lie in the memory of every job.
                for module in () if metric.missing() else metric.modules:
                    if module == "open_clip":
                        ready_torchvision()
                    importlib.import_module(module)
    except Exception as error:  # jobs say it themselves: a metric that cannot run is not run
        log.warning("not everything is installed", error=f"{type(error).__name__}: {error}")
    gc.collect()
    gc.freeze()
