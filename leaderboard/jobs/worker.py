"""The worker process: RQ's worker, made robust for long runs.

It serves exactly one queue. Without Redis it waits instead of ending. If a job is lost, it
enqueues the job's work again. Its work horse, RQ's name for the process of one job, never outlives
it.
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
from evaluation.torch_compat import fix_torchvision
from leaderboard import job_queue, jobs
from leaderboard.jobs import resilience
from leaderboard.models import Chain, Run

log = structlog.get_logger(__name__)
#: Modules that every job with images imports.
IMAGE_MODULES = (
    *(f"PIL.{name}ImagePlugin" for name in ("Bmp", "Gif", "Jpeg", "Png", "Ppm", "WebP")),
    *("convergebench_site.storage", "cv2", "encodings.idna", "numpy.ma"),
)
#: Modules that a score job imports besides those of the metrics; importing takes two seconds.
SCORE_MODULES = ("scipy.stats", "scipy.optimize", "skimage.color")
#: Modules that import torchvision.
TORCHVISION = ("transformers", "lpips", "open_clip")
#: For packages that load their modules on first use: the module to import instead.
LAZY_PACKAGES = {"transformers": "transformers.models.dinov2.modeling_dinov2"}


class SiteJob(Job):
    """An RQ job that calls one of this site's functions; any other job is deleted.

    RQ imports any dotted name in Redis. A foreign entry is rejected while it is read, before RQ
    sees its function, callbacks or arguments.
    """

    def restore(self, raw_data: Any) -> None:
        try:
            super().restore(raw_data)
            foreign = self._foreign_part()
        except Exception as error:  # the entry was not written by this site
            foreign = f"unreadable ({type(error).__name__})"
        if foreign:
            log.critical("foreign job deleted from the queue", job=self.id, calls=foreign)
            with suppress(RedisError):
                self.connection.delete(self.key)
            raise NoSuchJobError(f"job {self.id} does not call a function of this site")

    def _foreign_part(self) -> str:
        """Describe the part of the job that this site did not write; empty if there is none."""
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
    """A worker of the queue `edits`, `probes` or `gpu`."""

    # RQ itself logs only warnings and errors; jobs log their own work.
    log_result_lifespan = False

    def __init__(self, queue_name: str) -> None:
        # RQ's crash-safe pop needs a single queue, and worker and queue must share a serializer.
        super().__init__(
            [django_rq.get_queue(queue_name, connection=job_queue.connect(queue_name))],
            worker_ttl=30,
            job_monitoring_interval=5,
            maintenance_interval=min(15, int(settings.SWEEP_SECONDS)),
            serializer=settings.RQ_QUEUES[queue_name]["SERIALIZER"],
            queue_class=django_rq.queues.DjangoRQ,
            job_class=SiteJob,
            log_job_description=False,
        )
        self._last_sweep = 0.0

    # Without Redis.

    def _set_ip_address(self, connection: Redis) -> None:
        """Set a placeholder: RQ would ask Redis for the address, which nothing uses."""
        self.ip_address = "unknown"

    def work(self, *args: Any, **options: Any) -> bool:
        """Serve until a stop is requested; wait while Redis is unavailable."""
        with suppress(StopRequested):  # RQ itself catches this only while waiting for a job
            while self._has_redis():
                try:
                    super().work(*args, **options)
                except RedisError as error:
                    log.warning("redis unavailable", error=type(error).__name__)
                self.name = uuid4().hex  # the old name may still be registered as alive
        return True

    def _has_redis(self) -> bool:
        """Wait for Redis; return False if a stop is requested."""
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
        self._stop_requested = True  # the interrupted code may swallow the exception
        with suppress(RedisError):
            super()._shutdown()

    def subscribe(self) -> None:
        """Open no command channel: its thread would survive every fork.

        Runs are stopped by their state in the database.
        """

    @property
    def dequeue_timeout(self) -> int:
        """The seconds an idle worker waits for a job before a sweep."""
        return max(1, min(self.worker_ttl // 2, int(settings.SWEEP_SECONDS)))

    def run_maintenance_tasks(self) -> None:
        super().run_maintenance_tasks()
        self.sweep_if_due()

    # While a job runs.

    def execute_job(self, job: Job, queue: Queue) -> None:
        try:
            super().execute_job(job, queue)
        except RedisError as error:
            log.warning("redis unavailable", job=job.id, error=type(error).__name__)
            if self.horse_pid:
                self.wait_for_horse()
                self._horse_pid = 0

    def set_current_job_working_time(self, *args: Any, **options: Any) -> None:
        with suppress(RedisError):
            super().set_current_job_working_time(*args, **options)

    def maintain_heartbeats(self, job: Job) -> None:
        """Sweep also while a job runs, when RQ's idle loop is blocked."""
        with suppress(RedisError):
            super().maintain_heartbeats(job)
        self.sweep_if_due()

    def handle_work_horse_killed(self, job: Job, retpid: int, ret_val: int, rusage: Any) -> None:
        """Release the claims of the dead process at once."""
        super().handle_work_horse_killed(job, retpid, ret_val, rusage)
        token = job_queue.token_of(job.id)
        try:
            chains = Chain.objects.release(token)
            chains += Chain.objects.release_scores(token)
            Run.objects.release_finalising(token)
            log.warning("work horse died", job=job.id, chains=chains)
            self._sweep()
        except Exception:  # a later sweep releases them
            log.exception("chains could not be released", job=job.id)

    def handle_warm_shutdown_request(self) -> None:
        """Request the running job to end between two edits."""
        super().handle_warm_shutdown_request()
        if self.horse_pid:
            with suppress(ProcessLookupError):
                try:
                    os.killpg(self.horse_pid, signal.SIGTERM)
                except ProcessLookupError:  # it does not lead its process group yet
                    os.kill(self.horse_pid, signal.SIGTERM)

    # The work horse.

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        connections.close_all()  # two processes must not share a connection
        self._parent_pid = os.getpid()
        super().fork_work_horse(job, queue)

    def main_work_horse(self, job: Job, queue: Queue) -> None:
        resilience.die_with_parent(self._parent_pid)
        super().main_work_horse(job, queue)

    def setup_work_horse_signals(self) -> None:
        super().setup_work_horse_signals()
        resilience.stop_on_sigterm()

    # Work whose job was lost.

    def sweep_if_due(self) -> None:
        if not self.is_horse and time.monotonic() - self._last_sweep >= settings.SWEEP_SECONDS:
            self._sweep()

    def _sweep(self) -> None:
        self._last_sweep = time.monotonic()
        try:
            self._register_again()
            jobs.sweep()
        except StopRequested:
            raise
        except RedisError:
            pass
        except Exception:  # the worker must go on: the next sweep may succeed
            # A stop request during a commit appears as a database error.
            if not self._shutdown_requested_date:
                log.exception("sweep failed")
        finally:
            connections.close_all()

    def _register_again(self) -> None:
        """Register as alive again if Redis was emptied."""
        if self.birth_date and not self.connection.sismember(self.redis_workers_keys, self.key):
            with self.connection.pipeline() as pipeline:
                pipeline.hset(self.key, mapping=self.serialize())
                worker_registration.register(self, pipeline)
                pipeline.expire(self.key, self.worker_ttl + 60)
                pipeline.execute()


def preload(queue_name: str) -> None:
    """Import the modules of jobs before the first fork, so that jobs start fast.

    The function only imports, because a CUDA context or running threads would not survive the fork. The
    modules are exempt from garbage collection: scanning them in every fork would block all threads
    and copy the memory that forks share.
    """
    try:
        for module in IMAGE_MODULES:
            importlib.import_module(module)
        if queue_name == job_queue.GPU:
            for module in SCORE_MODULES:
                importlib.import_module(module)
            for name in settings.METRICS or METRICS:
                metric = load_metric(name)
                # Modules of a metric that cannot run would only use memory in every job.
                for module in () if metric.missing() else metric.modules:
                    if module in TORCHVISION:
                        fix_torchvision()
                    importlib.import_module(LAZY_PACKAGES.get(module, module))
    except Exception as error:  # each job reports the metrics that cannot run
        log.warning("modules not preloaded", error=f"{type(error).__name__}: {error}")
    gc.collect()
    gc.freeze()
