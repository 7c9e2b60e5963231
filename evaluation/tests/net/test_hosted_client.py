"""The client under the hosted editors: every call ends, whatever the other side does."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from PIL import Image

from evaluation.editors import EditorError, Fault, load_editor
from evaluation.images import Picture
from evaluation.net.hosted_client import Wire
from evaluation.testing.certificates import Authority

Serve = Callable[[Callable[[socket.socket], None]], str]


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    wire = Wire()
    yield wire
    wire.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """The address of a server that hands each connection to a function."""
    listeners: list[socket.socket] = []

    def start(talk: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=hold, args=(connection,), daemon=True).start()

        def hold(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                talk(connection)

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.close()


def read_head(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(4096)
    return data


def drip(connection: socket.socket, data: bytes) -> None:
    for byte in data:
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


def test_a_head_that_drips_does_not_outlast_the_clock(wire: Wire, serve: Serve) -> None:
    url = serve(lambda c: drip(c, b"HTTP/1.1 200 OK\r\nX-Slow: " + b"z" * 500))
    started = time.monotonic()
    with wire.call(0.3), pytest.raises(httpx2.ReadTimeout):
        wire.send("GET", url)
    assert time.monotonic() - started < 1


def test_a_server_that_does_not_read_does_not_outlast_the_clock(wire: Wire, serve: Serve) -> None:
    url = serve(lambda c: time.sleep(3))
    started = time.monotonic()
    with wire.call(0.3), pytest.raises(httpx2.TimeoutException):
        wire.send("POST", url, json="x" * 20_000_000)
    assert time.monotonic() - started < 1.5


def test_the_clock_runs_over_all_requests_of_a_call(wire: Wire, serve: Serve) -> None:
    def talk(connection: socket.socket) -> None:
        while True:
            read_head(connection)
            time.sleep(0.4)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    url = serve(talk)
    with wire.call(1.1) as limits:
        assert wire.send("GET", url).body == b"{}"
        assert wire.send("GET", url).body == b"{}"
        with pytest.raises(httpx2.TimeoutException):
            wire.send("GET", url)
    assert limits.sent


def test_a_connection_is_used_again(wire: Wire, serve: Serve) -> None:
    ports = set()

    def talk(connection: socket.socket) -> None:
        while True:
            read_head(connection)
            ports.add(connection.getpeername()[1])
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    url = serve(talk)
    for _ in range(3):
        with wire.call(2):
            wire.send("GET", url)
    assert len(ports) == 1


def test_a_small_body_that_unpacks_to_a_large_one_is_cut(wire: Wire, serve: Serve) -> None:
    bomb = gzip.compress(b"\0" * 5_000_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"

    def talk(connection: socket.socket) -> None:
        request = read_head(connection)
        assert b"accept-encoding: identity" in request.lower()
        connection.sendall(head.encode() + bomb)

    wire.max_body = 1_000_000
    with wire.call(2) as limits, pytest.raises(httpx2.ReadError, match="too large"):
        wire.send("GET", serve(talk))
    assert limits.overflow


def test_a_body_without_end_is_cut(wire: Wire, serve: Serve) -> None:
    def talk(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"z" * 65536)

    wire.max_body = 1_000_000
    with wire.call(5) as limits, pytest.raises(httpx2.ReadError):
        wire.send("GET", serve(talk))
    assert limits.overflow


def test_sleep_ends_with_the_call_and_with_the_wire(wire: Wire) -> None:
    started = time.monotonic()
    with wire.call(0.1), pytest.raises(httpx2.ReadTimeout):
        wire.sleep(30)
    threading.Timer(0.1, wire.close).start()
    with wire.call(30), pytest.raises(httpx2.ReadError, match="closed"):
        wire.sleep(30)
    assert time.monotonic() - started < 2


def test_a_proxy_of_the_environment_is_used_and_kept_to_the_clock(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        heads.append(read_head(connection))
        if b"/slow" in heads[-1]:
            time.sleep(3)
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
        connection.sendall(head + b"{}")

    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", serve(talk))
    wire = Wire()
    with wire.call(5):
        assert wire.send("GET", "http://api.example.org/x").body == b"{}"
    assert heads[0].startswith(b"GET http://api.example.org/x ")
    with wire.call(0.2), pytest.raises(httpx2.TimeoutException):
        wire.send("GET", "http://api.example.org/slow")
    wire.close()


@pytest.mark.parametrize("name", ["gemini", "openai-images", "bfl"])
def test_a_certificate_nobody_vouches_for_is_permanent(
    name: str, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Authority(tmp_path).server_context()
    received: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            received.append(secure.recv(4096))

    url = serve(talk).replace("http://127.0.0.1", "https://localhost")
    for variable in ("GOOGLE_API_KEY", "OPENAI_API_KEY", "BFL_API_KEY"):
        monkeypatch.setenv(variable, "a-key")
    monkeypatch.setenv("NO_PROXY", "localhost")
    editor = load_editor(name, model="m", base_url=url)
    with pytest.raises(EditorError, match="certificate") as caught:
        editor.edit(Picture.from_image(Image.new("RGB", (64, 64))), "x")
    assert (caught.value.fault, caught.value.permanent) == (Fault.TLS, True)
    assert not caught.value.billed
    assert received in ([], [b""]), "the key was not sent"
    editor.close()


def test_close_ends_a_call_inside_tls(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    context = authority.server_context()
    reached = threading.Event()

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            secure.recv(4096)
            reached.set()
            time.sleep(5)

    trusting = authority.client_context()
    monkeypatch.setattr("evaluation.net.hosted_client.trusted_authorities", lambda: trusting)
    monkeypatch.setenv("NO_PROXY", "localhost")
    wire = Wire()
    url = serve(talk).replace("http://127.0.0.1", "https://localhost")
    threading.Thread(target=lambda: (reached.wait(3), wire.close()), daemon=True).start()
    started = time.monotonic()
    with wire.call(10), pytest.raises(httpx2.HTTPError):
        wire.send("GET", url)
    assert time.monotonic() - started < 3
