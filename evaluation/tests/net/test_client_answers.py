"""Answers that are too large, compressed, truncated or broken."""

from __future__ import annotations

import gzip
import socket
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from httpcore2 import MockBackend

from evaluation.errors import EditorError, Fault
from evaluation.net import client as client_module
from evaluation.net.addresses import Rules
from evaluation.net.client import HttpClient, Reply
from evaluation.testing.hostile_server import HEAD, HostileServer, failure, response

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def received(answer: bytes, max_bytes: int = 10_000) -> Reply:
    """Return the client's reply to an answer after which the server hangs up."""
    client = HttpClient(Rules(allow_local=True), max_bytes=max_bytes)
    client._backend.connect_tcp = MockBackend([answer]).connect_tcp  # type: ignore[method-assign]
    return client.send("POST", "http://127.0.0.1/", content=b"hi", timeout=5)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (WHOLE, b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n", b"hello"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil it hangs up", b"until it hangs up"),
        (b"HTTP/1.0 200 OK\r\n\r\nold", b"old"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\n" + WHOLE, b"hello"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)  # fmt: skip
def test_every_way_to_frame_a_body_is_understood(answer: bytes, body: bytes) -> None:
    reply = received(answer)
    assert reply.body == body
    assert reply.status in (200, 204)
    assert reply.headers.get("content-length") != "9"


def test_an_answer_before_the_whole_request_was_sent_is_read(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        call = pool.submit(client.send, "POST", url, content=b"x" * 50_000_000, timeout=5)
        connection, _ = listener.accept()
        connection.sendall(response(413, b"big"))
        connection.shutdown(socket.SHUT_RD)
        time.sleep(0.1)
        connection.close()
        reply = call.result()
    assert (reply.status, reply.body) == (413, b"big")


@pytest.mark.parametrize("digits", [b"9" * 5_000, b"9" * 19])
def test_an_enormous_content_length_is_refused(digits: bytes) -> None:
    with pytest.raises(EditorError):
        received(b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\nhello" % digits)


@pytest.mark.parametrize("start", [b"0\r\nX: ", b"1;a="])
def test_trailers_and_chunk_extensions_have_a_limit(
    client: HttpClient, server: HostileServer, start: bytes
) -> None:
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
    error = failure(client, server.drips("/", head + start, b"y" * 65_536, 0))
    assert error.fault is Fault.SERVER_ERROR


def test_only_the_beginning_of_an_error_is_read(client: HttpClient, server: HostileServer) -> None:
    url = server.answers("/", response(500, b"e" * 10**6))
    client.max_bytes = 2**30
    reply = client.send("GET", url, timeout=5)
    assert (reply.status, len(reply.body)) == (500, client_module.MAX_ERROR_BYTES)
    client.send("GET", url, timeout=5)
    assert server.connections == 2


def test_an_endless_body_is_cut(client: HttpClient, server: HostileServer) -> None:
    error = failure(client, server.drips("/", HEAD + b"\r\n", b"x" * 50_000, 0.001))
    assert (error.fault, error.permanent) == (Fault.BAD_ANSWER, True)
    assert error.message.startswith("response too large")


def test_a_stated_length_beyond_the_limit_is_not_even_read(
    client: HttpClient, server: HostileServer
) -> None:
    url = server.answers("/", response(200, b"", "image/png", length=10**12))
    start = time.monotonic()
    assert failure(client, url).message.startswith("response too large")
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compression_bomb_is_cut(
    client: HttpClient, server: HostileServer, encoding: str
) -> None:
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    bomb = response(200, pack(b"\0" * 50_000_000), "image/png", Content_Encoding=encoding)
    assert len(bomb) < 100_000
    assert failure(client, server.answers("/", bomb)).message.startswith("response too large")


def test_a_compressed_body_is_unpacked_although_not_requested(
    client: HttpClient, server: HostileServer
) -> None:
    packed = response(200, gzip.compress(b"hello" * 1000), Content_Encoding="gzip")
    assert client.send("GET", server.answers("/", packed), timeout=10).body == b"hello" * 1000


def test_other_encodings_are_named_in_the_error(client: HttpClient, server: HostileServer) -> None:
    error = failure(client, server.answers("/", response(200, b"??", Content_Encoding="br")))
    assert "'br'" in error.message


@pytest.mark.parametrize(
    "reply",
    [
        response(200, b"short", "image/png", length=500),  # Content-Length too long
        response(200, b"much longer than it says", "image/png", length=4),  # too short
        response(200, b"no gzip", Content_Encoding="gzip"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nnope",
        b"HTTP/1.1 200 OK\r\nBad Header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"",
        b"220 smtp.example ESMTP\r\n\r\n",
        b"\0" * 100 + b"\r\n\r\n",
    ],
)
def test_broken_http_is_a_protocol_error_that_is_retried(
    client: HttpClient, server: HostileServer, reply: bytes
) -> None:
    def answer(connection: socket.socket, _: Any) -> None:
        connection.sendall(reply)
        connection.shutdown(socket.SHUT_WR)

    error = failure(client, server.does("/", answer))
    assert (error.fault, error.permanent) == (Fault.SERVER_ERROR, False)
    assert error.message.startswith("protocol error")
    assert "longer than it says" not in error.message


def test_bytes_beyond_the_content_length_never_become_the_next_answer(
    client: HttpClient, server: HostileServer
) -> None:
    smuggled = response(200, b"AB", "image/png", length=1)[:-1] + response(200, b"smuggled")
    url = server.answers("/", smuggled, response(200, b"true"))
    failure(client, url)
    assert client.send("GET", url, timeout=10).body == b"true"


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"X: " + b"a" * 200_000,
        HEAD + b"X: y\r\n" * 30_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 5000,
    ],
)
def test_the_head_is_limited(client: HttpClient, server: HostileServer, head: bytes) -> None:
    error = failure(client, server.answers("/", head + b"\r\n\r\n"))
    assert (error.fault, error.permanent) == (Fault.SERVER_ERROR, False)


def test_a_connection_cut_in_the_middle_can_be_retried(
    client: HttpClient, server: HostileServer
) -> None:
    def cut(connection: socket.socket, _: Any) -> None:
        connection.sendall(HEAD)
        connection.shutdown(socket.SHUT_RDWR)

    error = failure(client, server.does("/", cut))
    assert error.fault in (Fault.UNREACHABLE, Fault.SERVER_ERROR)
    assert not error.permanent


def test_a_header_with_a_line_break_is_not_sent(client: HttpClient, server: HostileServer) -> None:
    error = failure(client, server.answers("/", response()), headers={"X": "a\r\nInjected: 1"})
    assert (error.fault, error.permanent) == (Fault.CONFIGURATION, True)
    assert server.received == []
    assert error.__cause__ is None  # it would quote the header, which may hold a key


def test_a_body_in_too_many_pieces_is_cut(
    client: HttpClient, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_PIECES", 1000)
    url = server.drips("/", HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 500, 0)
    error = failure(client, url)
    assert (error.fault, error.permanent) == (Fault.SERVER_ERROR, False)
    assert "pieces" in error.message
