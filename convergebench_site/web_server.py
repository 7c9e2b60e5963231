"""gunicorn's configuration: `--config python:convergebench_site.web_server`.

A gunicorn thread normally reads a request from its first to its last byte, so a few clients that
send slowly could occupy all threads. In this worker the loop that accepts connections also reads
the requests, and hands a request to a thread when all its bytes have arrived. Only bodies longer
than BODY_LIMIT occupy a thread while they arrive; the middleware admits two such bodies at a time.

With PROMETHEUS=1, web processes count requests in a shared folder, so that each process can report
the totals. The folder is new at every start, because old files would be counted again.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import selectors
import shutil
import socket
import struct
import tempfile
import time
from collections import Counter
from functools import partial
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from convergebench_site import settings

#: Time for a request's head to arrive. A body gets more time in proportion to its length.
HEAD_SECONDS = 10.0
BODY_BYTES_PER_SECOND = 256 * 2**10
#: The connection is closed if the client reads nothing of the response for this long.
SEND_SECONDS = 30
#: Time for the client to close the connection after its last response.
LINGER_SECONDS = 2.0
HEAD_BYTES = 32 * 2**10
#: Arriving requests are in memory up to this size, and in a file above it.
IN_MEMORY = 16 * 2**10
#: Limit of all arriving requests together. Above it, a request of the largest sender is refused.
ARRIVING_BYTES = 128 * 2**20
#: Bytes read from a socket at once.
CHUNK = 64 * 2**10
#: Limit of open files. Most systems allow 1,024; a connection and its request need two.
OPEN_FILES = 4096

END_OF_HEAD = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})[ \t]*\r\n", re.IGNORECASE)
EXPECT = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
REFUSAL = b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
HEAD_TOO_LONG = REFUSAL % b"431 Request Header Fields Too Large"
NO_ROOM = REFUSAL % b"503 Service Unavailable"


class ArrivingRequest:
    """The bytes of a request that have arrived.

    `needed` is the total number of bytes; it is None until the head has arrived.
    """

    def __init__(self) -> None:
        self.deadline = time.monotonic() + HEAD_SECONDS
        self.needed: int | None = None
        self.expects_continue = False
        self.size = 0
        self._head = bytearray()
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 -- see close()

    @property
    def is_complete(self) -> bool:
        return self.needed is not None and self.size >= self.needed

    @property
    def is_long(self) -> bool:
        return self.needed is not None and self.needed > settings.BODY_LIMIT + HEAD_BYTES

    def add(self, data: bytes) -> None:
        """Add bytes. Raises OSError if the disk is full."""
        if self.needed is not None:
            self._file.write(data)
            self.size += len(data)
            return
        searched = max(0, len(self._head) - len(END_OF_HEAD))
        self._head += data
        self.size = len(self._head)
        end = self._head.find(END_OF_HEAD, searched) + len(END_OF_HEAD)
        if end < len(END_OF_HEAD):
            return
        head, body = bytes(self._head[:end]), bytes(self._head[end:])
        stated = LENGTH.search(head)
        length = int(stated[1]) if stated else 0
        # Remove this header, because gunicorn would answer "100 Continue" again after the body.
        head, expected = EXPECT.subn(b"", head)
        self.expects_continue = bool(expected)
        self.needed = len(head) + length
        self.deadline += length / BODY_BYTES_PER_SECOND
        self.size = 0
        self.add(head + body)

    def read(self) -> bytes:
        self._file.seek(0)
        return self._file.read()

    def close(self) -> None:
        self._file.close()


class ArrivalWorker(ThreadWorker):
    """A gunicorn worker whose threads only get requests that have arrived.

    Requests that take too long to arrive are dropped without a response. The time that a request
    waits for a thread does not count.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._arriving: dict[Any, ArrivingRequest] = {}
        self._arriving_bytes = 0
        self._in_threads: dict[Any, ArrivingRequest] = {}
        self._lingering: dict[Any, float] = {}

    def init_process(self) -> None:
        _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, hard_limit), hard_limit))
        super().init_process()

    # Receiving requests.

    def enqueue_req(self, conn: Any) -> None:
        """Wait until the connection's next request has arrived, without using a thread."""
        self._arriving[conn] = ArrivingRequest()
        conn.sock.setblocking(False)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_data, conn))
        # The last bytes read may include the beginning of the next request.
        if conn.initialized and (surplus := conn.parser.unreader.take_buffered()):
            self._add(conn, surplus)

    def _on_data(self, conn: Any, sock: socket.socket) -> None:
        try:
            data = sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._add(conn, data)
        else:
            self._drop(conn)

    def _add(self, conn: Any, data: bytes) -> None:
        request = self._arriving[conn]
        before = request.size
        try:
            request.add(data)
        except OSError:
            self._refuse(conn, NO_ROOM)
            return
        finally:
            self._arriving_bytes += request.size - before
        if request.is_complete or request.is_long:
            self._hand_over(conn)
        elif request.needed is None and request.size > HEAD_BYTES:
            self._refuse(conn, HEAD_TOO_LONG)
        elif request.expects_continue:
            request.expects_continue = False
            with contextlib.suppress(OSError):
                conn.sock.send(CONTINUE)
        elif self._arriving_bytes > ARRIVING_BYTES:
            self._free_memory()

    def _free_memory(self) -> None:
        """Refuse the largest request of the address that has sent the most bytes."""
        sizes = Counter[str]()
        for conn, request in self._arriving.items():
            sizes[_address(conn)] += request.size
        ((largest, _),) = sizes.most_common(1)
        connections = [conn for conn in self._arriving if _address(conn) == largest]
        self._refuse(max(connections, key=lambda conn: self._arriving[conn].size), NO_ROOM)

    def _refuse(self, conn: Any, response: bytes) -> None:
        with contextlib.suppress(OSError):
            conn.sock.send(response)
        self._forget(conn).close()
        self._linger(conn)

    def _forget(self, conn: Any) -> ArrivingRequest:
        request = self._arriving.pop(conn)
        self._arriving_bytes -= request.size
        self.poller.unregister(conn.sock)
        return request

    def _hand_over(self, conn: Any) -> None:
        """Hand the request to a thread."""
        request = self._in_threads[conn] = self._forget(conn)
        conn.data_ready = True
        if request.expects_continue:
            with contextlib.suppress(OSError):
                conn.sock.send(CONTINUE)
        with contextlib.suppress(OSError):
            timeout = struct.pack("ll", SEND_SECONDS, 0)
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        super().enqueue_req(conn)

    # Handling requests in a thread.

    def handle(self, conn: Any) -> Any:
        request = self._in_threads[conn]
        conn.init()
        unreader = conn.parser.unreader
        unreader.unread(request.read())
        vars(unreader).pop("chunk", None)
        if request.is_complete:
            # gunicorn must not wait for more data, such as chunks.
            unreader.chunk = lambda size_hint=None: b""
        request.close()
        return super().handle(conn)

    def handle_request(self, req: Any, conn: Any) -> Any:
        if not self._in_threads[conn].is_complete:
            req.force_close()  # otherwise the thread would wait for a refused body
        return super().handle_request(req, conn)

    # Closing connections.

    def finish_request(self, conn: Any, fs: Any) -> None:
        self._in_threads.pop(conn).close()
        if self.alive and not fs.cancelled() and not fs.exception() and fs.result():
            super().finish_request(conn, fs)
        else:
            self._linger(conn)

    def _linger(self, conn: Any) -> None:
        """Close the connection after the client does, so that the client can read the response.

        gunicorn itself would wait for the client, and could accept no connections in that time.
        """
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.setblocking(False)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_rest, conn))
            self._lingering[conn] = time.monotonic() + LINGER_SECONDS
        except (OSError, ValueError):
            self._close(conn)

    def _on_rest(self, conn: Any, sock: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            try:
                if sock.recv(CHUNK):
                    return
            except ConnectionError:
                pass
            self._end_lingering(conn)

    def _end_lingering(self, conn: Any) -> None:
        del self._lingering[conn]
        self.poller.unregister(conn.sock)
        self._close(conn)

    def _drop(self, conn: Any) -> None:
        self._forget(conn).close()
        self._close(conn)

    def _close(self, conn: Any) -> None:
        self.nr_conns -= 1
        conn.close()

    def murder_pending(self) -> None:
        super().murder_pending()
        now = time.monotonic()
        for conn, request in list(self._arriving.items()):
            # A process that is stopping does not wait for requests that have not begun.
            if now > request.deadline or (not self.alive and not request.size):
                self._drop(conn)
        for conn, request in self._in_threads.items():
            if not request.is_complete and now > request.deadline:
                with contextlib.suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RD)
        for conn, deadline in list(self._lingering.items()):
            if now > deadline:
                self._end_lingering(conn)


def _address(conn: Any) -> str:
    """Return the address of the client or proxy, or "" on a unix socket."""
    return conn.client[0] if isinstance(conn.client, tuple) else ""


worker_class = ArrivalWorker
threads = 4
preload_app = True
control_socket_disable = True

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
if settings.PROMETHEUS:
    os.environ[METRICS_FOLDER] = tempfile.mkdtemp(prefix="convergebench-prometheus-")


def child_exit(server: Any, worker: Any) -> None:
    """Delete the gauges of an ended web process; keep its counters, as totals must not fall."""
    if METRICS_FOLDER in os.environ:
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(worker.pid)


def on_exit(server: Any) -> None:
    """Remove the metrics folder when all web processes have ended."""
    if folder := os.environ.get(METRICS_FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
