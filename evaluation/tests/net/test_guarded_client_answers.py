"""Answers that are too large, packed, cut or broken, and what the guarded client makes of them."""

from __future__ import annotations

import gzip
import socket
import time
import zlib
from typing import Any

import pytest

from evaluation.errors import Fault
from evaluation.net import http_connection
from evaluation.net.guarded_client import GuardedClient
from evaluation.testing.hostile_server import HEAD, HostileServer, failure, response


def test_an_endless_body_is_cut(client: GuardedClient, server: HostileServer) -> None:
    error = failure(client, server.drips("/", HEAD + b"\r\n", b"x" * 50_000, 0.001))
    assert (error.fault, error.permanent) == (Fault.BAD_ANSWER, True)
    assert error.message.startswith("response too large")


def test_a_stated_length_beyond_the_limit_is_not_even_read(
    client: GuardedClient, server: HostileServer
) -> None:
    url = server.answers("/", response(200, b"", "image/png", length=10**12))
    start = time.monotonic()
    assert failure(client, url).message.startswith("response too large")
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_small_packed_body_that_unpacks_to_much_is_cut(
    client: GuardedClient, server: HostileServer, encoding: str
) -> None:
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    bomb = response(200, pack(b"\0" * 50_000_000), "image/png", Content_Encoding=encoding)
    assert len(bomb) < 100_000
    assert failure(client, server.answers("/", bomb)).message.startswith("response too large")


def test_a_packed_body_is_unpacked_though_we_did_not_ask_for_it(
    client: GuardedClient, server: HostileServer
) -> None:
    packed = response(200, gzip.compress(b"hello" * 1000), Content_Encoding="gzip")
    assert client.send("GET", server.answers("/", packed), timeout=10).body == b"hello" * 1000


def test_other_encodings_are_named_in_the_error(
    client: GuardedClient, server: HostileServer
) -> None:
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
        b"HTTP/1.1 302 Found\r\nLocation: \x01\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"",
        b"220 smtp.example ESMTP\r\n\r\n",
        b"\0" * 100 + b"\r\n\r\n",
    ],
)
def test_broken_http_is_a_protocol_error_that_is_retried(
    client: GuardedClient, server: HostileServer, reply: bytes
) -> None:
    def answer(connection: socket.socket, _: Any) -> None:
        connection.sendall(reply)
        connection.shutdown(socket.SHUT_WR)

    error = failure(client, server.does("/", answer))
    assert (error.fault, error.permanent) == (Fault.SERVER_ERROR, False)
    assert error.message.startswith("protocol error")
    assert "longer than it says" not in error.message


def test_what_follows_a_lie_about_the_length_never_becomes_the_next_answer(
    client: GuardedClient, server: HostileServer
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
def test_the_head_is_limited(client: GuardedClient, server: HostileServer, head: bytes) -> None:
    error = failure(client, server.answers("/", head + b"\r\n\r\n"))
    assert (error.fault, error.permanent) == (Fault.SERVER_ERROR, False)


def test_a_connection_cut_in_the_middle_can_be_tried_again(
    client: GuardedClient, server: HostileServer
) -> None:
    def cut(connection: socket.socket, _: Any) -> None:
        connection.sendall(HEAD)
        connection.shutdown(socket.SHUT_RDWR)

    error = failure(client, server.does("/", cut))
    assert error.fault in (Fault.UNREACHABLE, Fault.SERVER_ERROR)
    assert not error.permanent


def test_a_header_with_a_line_break_is_not_sent(
    client: GuardedClient, server: HostileServer
) -> None:
    error = failure(client, server.answers("/", response()), headers={"X": "a\r\nInjected: 1"})
    assert (error.fault, error.permanent) == (Fault.CONFIGURATION, True)
    assert server.received == []
    assert error.__cause__ is None  # it would quote the header, which may hold a key


def test_a_body_in_countless_pieces_is_cut(
    client: GuardedClient, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "MAX_PIECES", 1000)
    url = server.drips("/", HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 500, 0)
    error = failure(client, url)
    assert (error.fault, error.permanent) == (Fault.SERVER_ERROR, False)
    assert "pieces" in error.message
