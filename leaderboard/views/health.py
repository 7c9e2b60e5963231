"""Health checks for load balancers, and Prometheus metrics."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from django.conf import settings
from django.core.files.storage import FileSystemStorage, default_storage
from django.db import connection
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, multiprocess
from rq import Worker

from leaderboard import job_queue
from leaderboard.operation import monitoring


@never_cache
@require_safe
def livez(request: HttpRequest) -> JsonResponse:
    """Return 200 while the web process answers."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Serve the metrics of the site and of the web processes on this host to Prometheus.

    The metrics name models that are not public yet, so requests through the proxy or from outside
    the private network get a 404.
    """
    if not _is_internal(request):
        raise Http404("There is no such page.")
    registry = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    return HttpResponse(monitoring.exposition(registry), content_type=CONTENT_TYPE_LATEST)


def _is_internal(request: HttpRequest) -> bool:
    if request.headers.get("X-Forwarded-For") or request.headers.get("Forwarded"):
        return False
    peer = request.META.get("REMOTE_ADDR") or ""
    try:
        return not peer or ipaddress.ip_address(peer).is_private
    except ValueError:
        return False


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Return 200 if pages can be served, with the result of each check.

    Pages work without Redis and workers: the status is then "degraded", and submissions are
    saved and start later.
    """
    checks = {
        "database": _outcome(_database),
        "storage": _outcome(_storage),
        "redis": _outcome(_redis),
        **{f"workers.{name}": _outcome(partial(_workers, name)) for name in settings.RQ_QUEUES},
    }
    essential = checks["database"] == checks["storage"] == "ok"
    status = "ok" if set(checks.values()) == {"ok"} else "degraded" if essential else "unavailable"
    return JsonResponse({"status": status, "checks": checks}, status=200 if essential else 503)


def _outcome(check: Callable[[], None]) -> str:
    try:
        check()
    except Exception as error:
        # Only the class is shown, because messages may contain addresses and passwords.
        return str(error) if isinstance(error, LookupError) else type(error).__name__
    return "ok"


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _storage() -> None:
    """Check the storage without writing, since the rate of requests is not limited."""
    default_storage.exists("health")
    if isinstance(default_storage, FileSystemStorage):
        folder = Path(default_storage.location)
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise LookupError("cannot be written")


def _redis() -> None:
    job_queue.get_queue(job_queue.EDITS).connection.ping()


def _workers(queue: str) -> None:
    if not Worker.count(queue=job_queue.get_queue(queue)):
        raise LookupError("none alive")
