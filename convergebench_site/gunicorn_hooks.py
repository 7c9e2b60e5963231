"""What gunicorn reads and tells us: `--config python:convergebench_site.gunicorn_hooks`.

Web processes count requests into files that each of them can sum up (PROMETHEUS=1): which one
Prometheus happens to ask makes no difference. The folder is made here, before anything counts,
and anew with every start: what an earlier one left would be counted twice.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
if os.environ.get("PROMETHEUS", "").lower() in ("1", "on", "true", "yes"):
    os.environ[FOLDER] = tempfile.mkdtemp(prefix="convergebench-prometheus-")


def child_exit(server: Any, worker: Any) -> None:
    """A web process ended: its gauges go, its counters stay, or they would seem to fall."""
    if FOLDER in os.environ:
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(worker.pid)


def on_exit(server: Any) -> None:
    """All of them ended."""
    if folder := os.environ.get(FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
