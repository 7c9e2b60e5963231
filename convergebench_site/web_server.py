"""gunicorn's configuration: `--config python:convergebench_site.web_server`.

A thread reads a request from its first byte to its last; a few dozen half-sent requests would
occupy all threads for ever, so requests have a deadline. A buffering proxy is the better
solution (docs/deploy.md); this is for a site without one.

Web processes count requests into files that each of them can sum up (PROMETHEUS=1), so any of
them can answer Prometheus. The folder is created here before anything counts, and anew at every
start: files of an earlier start would be counted twice.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import tempfile
import time
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from convergebench_site import settings

#: From the first byte to the end of the head; a body gets time in proportion to its length.
HEAD_SECONDS = 10.0
BODY_BYTES_PER_SECOND = 256 * 2**10
#: The connection ends if the visitor reads nothing of the answer for so long.
SEND_SECONDS = 30


class DeadlineWorker(ThreadWorker):
    """A worker that shuts the incoming half of connections with overdue requests.

    Bytes that have arrived are still read, and answers are still sent: a request that waits its
    turn, or takes long to answer, is not harmed.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._arriving: dict[Any, float] = {}

    def enqueue_req(self, conn: Any) -> None:
        self._arriving[conn] = time.monotonic() + HEAD_SECONDS
        with contextlib.suppress(OSError):
            patience = struct.pack("ll", SEND_SECONDS, 0)
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        super().enqueue_req(conn)

    def handle_request(self, req: Any, conn: Any) -> Any:
        length = next((value for name, value in req.headers if name == "CONTENT-LENGTH"), "0")
        if length.isdigit():
            self._arriving[conn] = (
                time.monotonic() + HEAD_SECONDS + int(length) / BODY_BYTES_PER_SECOND
            )
        return super().handle_request(req, conn)

    def finish_request(self, conn: Any, fs: Any) -> None:
        self._arriving.pop(conn, None)
        super().finish_request(conn, fs)

    def murder_pending(self) -> None:
        super().murder_pending()
        now = time.monotonic()
        for conn, deadline in list(self._arriving.items()):
            if now > deadline:
                self._arriving.pop(conn, None)
                with contextlib.suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RD)


worker_class = DeadlineWorker
threads = 4
preload_app = True
control_socket_disable = True

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
if settings.PROMETHEUS:
    os.environ[FOLDER] = tempfile.mkdtemp(prefix="convergebench-prometheus-")


def child_exit(server: Any, worker: Any) -> None:
    """Drop the gauges of an ended web process; its counters stay, or sums would fall."""
    if FOLDER in os.environ:
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(worker.pid)


def on_exit(server: Any) -> None:
    """Remove the folder when all web processes have ended."""
    if folder := os.environ.get(FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
