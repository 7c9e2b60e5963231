"""gunicorn's configuration: `--config python:convergebench_site.web_server`.

A thread of gunicorn reads a request from its first byte to its last, so a few half-sent requests
would occupy all threads. Here the loop that accepts connections reads requests, and a request gets
a thread when all of it has arrived. Only a body longer than BODY_LIMIT occupies a thread while it
arrives; the middleware takes two of them at a time and refuses others at once.

Web processes count requests into files that each of them can sum up (PROMETHEUS=1), so any of
them can answer Prometheus. The folder is created here before anything counts, and again at every
start: files of an earlier start would be counted twice.
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

#: From the first byte to the end of the head; a body gets time in proportion to its length.
HEAD_SECONDS = 10.0
BODY_BYTES_PER_SECOND = 256 * 2**10
#: The connection ends if the visitor reads nothing of the answer for so long.
SEND_SECONDS = 30
#: The visitor has so long to close the connection after its last answer.
LINGER_SECONDS = 2.0
HEAD_BYTES = 32 * 2**10
#: A request that arrives is in memory up to this size, and above it in a file.
IN_MEMORY = 16 * 2**10
#: What all arriving requests may have; above it, the address with the most bytes loses a request.
ARRIVING_BYTES = 128 * 2**20
PIECE = 64 * 2**10
#: A connection and the file of its request; the soft limit of most systems is 1,024.
FILES = 4096

END_OF_HEAD = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})[ \t]*\r\n", re.IGNORECASE)
EXPECT = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
REFUSAL = b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
LONG_HEAD = REFUSAL % b"431 Request Header Fields Too Large"
NO_ROOM = REFUSAL % b"503 Service Unavailable"


class Arriving:
    """The bytes of a request so far; `needed` is their number, once the head has arrived."""

    def __init__(self) -> None:
        self.deadline = time.monotonic() + HEAD_SECONDS
        self.needed: int | None = None
        self.expects_continue = False
        self.size = 0
        self._head = bytearray()
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 -- see close()

    @property
    def is_whole(self) -> bool:
        return self.needed is not None and self.size >= self.needed

    @property
    def is_long(self) -> bool:
        return self.needed is not None and self.needed > settings.BODY_LIMIT + HEAD_BYTES

    def take(self, data: bytes) -> None:
        """Add bytes. Raises OSError if the disk is full."""
        if self.needed is not None:
            self._file.write(data)
            self.size += len(data)
            return
        seen = max(0, len(self._head) - len(END_OF_HEAD))
        self._head += data
        self.size = len(self._head)
        end = self._head.find(END_OF_HEAD, seen) + len(END_OF_HEAD)
        if end < len(END_OF_HEAD):
            return
        head, rest = bytes(self._head[:end]), bytes(self._head[end:])
        stated = LENGTH.search(head)
        length = int(stated[1]) if stated else 0
        # gunicorn would answer it again, after the body.
        head, expected = EXPECT.subn(b"", head)
        self.expects_continue = bool(expected)
        self.needed = len(head) + length
        self.deadline += length / BODY_BYTES_PER_SECOND
        self.size = 0
        self.take(head + rest)

    def read(self) -> bytes:
        self._file.seek(0)
        return self._file.read()

    def close(self) -> None:
        self._file.close()


class ArrivalWorker(ThreadWorker):
    """A worker whose threads only see requests that have arrived.

    Requests that are overdue end without an answer. Answers are still sent, however long a
    request waits its turn.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._arriving: dict[Any, Arriving] = {}
        self._arriving_bytes = 0
        self._in_threads: dict[Any, Arriving] = {}
        self._lingering: dict[Any, float] = {}

    def init_process(self) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, most), most))
        super().init_process()

    # Arriving requests.

    def enqueue_req(self, conn: Any) -> None:
        """Wait for a request of this connection instead of giving it a thread."""
        self._arriving[conn] = Arriving()
        conn.sock.setblocking(False)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_bytes, conn))
        # The end of one request may have come with the beginning of the next.
        if conn.initialized and (surplus := conn.parser.unreader.take_buffered()):
            self._take(conn, surplus)

    def _on_bytes(self, conn: Any, sock: socket.socket) -> None:
        try:
            data = sock.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._take(conn, data)
        else:
            self._drop(conn)

    def _take(self, conn: Any, data: bytes) -> None:
        request = self._arriving[conn]
        before = request.size
        try:
            request.take(data)
        except OSError:
            self._refuse(conn, NO_ROOM)
            return
        finally:
            self._arriving_bytes += request.size - before
        if request.is_whole or request.is_long:
            self._serve(conn)
        elif request.needed is None and request.size > HEAD_BYTES:
            self._refuse(conn, LONG_HEAD)
        elif request.expects_continue:
            request.expects_continue = False
            with contextlib.suppress(OSError):
                conn.sock.send(CONTINUE)
        elif self._arriving_bytes > ARRIVING_BYTES:
            self._make_room()

    def _make_room(self) -> None:
        """Refuse the largest request of the address with the most bytes."""
        sizes = Counter[str]()
        for conn, request in self._arriving.items():
            sizes[_address(conn)] += request.size
        ((most, _),) = sizes.most_common(1)
        theirs = [conn for conn in self._arriving if _address(conn) == most]
        self._refuse(max(theirs, key=lambda conn: self._arriving[conn].size), NO_ROOM)

    def _refuse(self, conn: Any, answer: bytes) -> None:
        with contextlib.suppress(OSError):
            conn.sock.send(answer)
        self._forget(conn).close()
        self._linger(conn)

    def _forget(self, conn: Any) -> Arriving:
        request = self._arriving.pop(conn)
        self._arriving_bytes -= request.size
        self.poller.unregister(conn.sock)
        return request

    def _serve(self, conn: Any) -> None:
        """Give the request a thread."""
        request = self._in_threads[conn] = self._forget(conn)
        conn.data_ready = True
        if request.expects_continue:
            with contextlib.suppress(OSError):
                conn.sock.send(CONTINUE)
        with contextlib.suppress(OSError):
            patience = struct.pack("ll", SEND_SECONDS, 0)
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        super().enqueue_req(conn)

    # In a thread.

    def handle(self, conn: Any) -> Any:
        request = self._in_threads[conn]
        conn.init()
        unreader = conn.parser.unreader
        unreader.unread(request.read())
        vars(unreader).pop("chunk", None)
        if request.is_whole:
            # Whatever gunicorn expects beyond, such as chunks, it does not wait for.
            unreader.chunk = lambda size_hint=None: b""
        request.close()
        return super().handle(conn)

    def handle_request(self, req: Any, conn: Any) -> Any:
        if not self._in_threads[conn].is_whole:
            req.force_close()  # or the thread would wait for a body that was refused
        return super().handle_request(req, conn)

    # The end of connections.

    def finish_request(self, conn: Any, fs: Any) -> None:
        self._in_threads.pop(conn).close()
        if self.alive and not fs.cancelled() and not fs.exception() and fs.result():
            super().finish_request(conn, fs)
        else:
            self._linger(conn)

    def _linger(self, conn: Any) -> None:
        """Close the connection after the visitor does, so that they can read the answer.

        gunicorn waits for it here, and accepts no connection meanwhile.
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
                if sock.recv(PIECE):
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
            # A process that stops waits for no request that has not begun.
            if now > request.deadline or (not self.alive and not request.size):
                self._drop(conn)
        for conn, request in self._in_threads.items():
            if not request.is_whole and now > request.deadline:
                with contextlib.suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RD)
        for conn, deadline in list(self._lingering.items()):
            if now > deadline:
                self._end_lingering(conn)


def _address(conn: Any) -> str:
    """Return the visitor's address, or the proxy's; "" on a unix socket."""
    return conn.client[0] if isinstance(conn.client, tuple) else ""


worker_class = ArrivalWorker
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
