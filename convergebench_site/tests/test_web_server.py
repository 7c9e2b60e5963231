"""Requests get a thread when they have arrived, so slow clients delay no page."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any

import pytest
from django.conf import settings

from convergebench_site.tests.conftest import WebServer, serving

MB = 2**20
WHOLE = b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n"
#: Several times as many senders as threads.
SENDERS = 16


def echo(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer with the hash of the body; refuse without reading it at /refused."""
    refused = environ["PATH_INFO"] == "/refused"
    read = b"" if refused else environ["wsgi.input"].read()
    answer = sha256(read).hexdigest().encode()
    status = "413 Content Too Large" if refused else "200 OK"
    start_response(status, [("Content-Length", str(len(answer)))])
    return [answer]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    folder = tmp_path_factory.mktemp("web")
    with serving(WebServer(folder, f"{__name__}:echo")) as server:
        yield server


def connected(web: WebServer, data: bytes) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", web.port), timeout=10)
    sock.sendall(data)
    return sock


def posted(length: int, path: str = "/page", more: bytes = b"") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n"
    return head.encode() + more + b"\r\n"


def answers(sock: socket.socket, count: int = 1) -> list[bytes]:
    """Read the bodies of this many responses on one connection."""
    bodies, file = [], sock.makefile("rb")
    for _ in range(count):
        while (line := file.readline()) != b"\r\n":
            assert line
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        bodies.append(file.read(length))
    return bodies


def digest(data: bytes) -> bytes:
    return sha256(data).hexdigest().encode()


SLOW = {
    "half of a body": posted(4 * MB) + bytes(100_000),
    "no body where one is refused": posted(100 * MB, "/refused"),
    "no end of the chunks": b"POST /refused HTTP/1.1\r\nHost: a\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "the connection is never closed": b"GET /page HTTP/1.0\r\n\r\n",
    "half of the second request": WHOLE + posted(4 * MB) + b"half",
    "half of a head": b"GET /page HTTP/1.1\r\nHost:",
    "empty lines": b"\r\n\r\n\r\n\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("data", SLOW.values(), ids=SLOW)
def test_slow_clients_delay_no_page(web: WebServer, data: bytes):
    slow = [connected(web, data) for _ in range(SENDERS)]
    try:
        times = []
        for _ in range(5):
            time.sleep(0.1)
            start = time.monotonic()
            assert web.get("/page", timeout=30) == 200
            times.append(time.monotonic() - start)
    finally:
        for sock in slow:
            sock.close()
    assert max(times) < 1.9  # gunicorn lets each of them wait 2 s or more


def test_a_body_sent_in_pieces_arrives_whole(web: WebServer):
    body = os.urandom(4 * MB)
    request = posted(len(body)) + body
    with connected(web, b"") as sock:
        for cut in (1, 2, 40, 60, 20_000, 1_000_000, len(request)):
            sock.sendall(request[:cut])
            request = request[cut:]
            time.sleep(0.02)
        assert answers(sock) == [digest(body)]


def test_a_body_beyond_the_limit_still_arrives(web: WebServer):
    body = os.urandom(6 * MB)
    with connected(web, posted(len(body)) + body) as sock:
        assert answers(sock) == [digest(body)]


def test_requests_that_arrive_together_are_answered_in_turn(web: WebServer):
    together = posted(3) + b"one" + WHOLE + posted(5) + b"t"
    with connected(web, together) as sock:
        assert answers(sock, 2) == [digest(b"one"), digest(b"")]
        sock.sendall(b"hree")
        assert answers(sock) == [digest(b"three")]


def test_a_client_that_expects_100_continue_gets_it_once(web: WebServer):
    with connected(web, posted(5, more=b"Expect: 100-continue\r\n")) as sock:
        assert sock.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"hello")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_head_without_end_is_refused(web: WebServer):
    with connected(web, b"GET /page HTTP/1.1\r\nA: " + b"a" * 60_000) as sock:
        assert sock.recv(1000).startswith(b"HTTP/1.1 431 ")
        assert sock.recv(1000) == b""


def test_a_refusal_reaches_a_client_that_is_still_sending(web: WebServer):
    with connected(web, posted(100 * MB, "/refused") + bytes(MB)) as sock:
        sock.sendall(bytes(MB))
        assert sock.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_connection_serves_many_requests(web: WebServer):
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=10)
    for number in range(5):
        body = bytes(number * 10_000)
        connection.request("POST", "/page", body)
        assert connection.getresponse().read() == digest(body)


@pytest.mark.slow
def test_a_hundred_unfinished_bodies_exhaust_neither_memory_nor_connections(web: WebServer):
    """400 MB from one address cost only that address its requests."""
    half = posted(4 * MB) + bytes(4 * MB - 1)
    sockets = []
    for number in range(100):
        if number == 90:  # not earlier: a body of this size must arrive within ten seconds
            visitor = socket.create_connection(
                ("127.0.0.1", web.port), timeout=10, source_address=("127.0.0.2", 0)
            )
            visitor.sendall(posted(100_000) + bytes(99_999))
            sockets.append(visitor)
        slow = socket.create_connection(("127.0.0.1", web.port), timeout=10)
        with contextlib.suppress(OSError):  # it is refused already
            slow.sendall(half)
        sockets.append(slow)
    visitor.sendall(b"\0")
    assert answers(visitor) == [digest(bytes(100_000))]
    for sock in sockets:
        sock.close()
    assert web.peak() < 200


def test_a_new_process_has_imported_the_views_before_its_first_request():
    code = "import sys, convergebench_site.wsgi; assert 'leaderboard.urls' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=settings.BASE_DIR)
