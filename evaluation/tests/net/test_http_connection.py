"""The wire: whatever a server sends, and however it is cut, the answer is right or an error."""

from __future__ import annotations

import contextlib
import socket
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence

import h11
import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evaluation.errors import EditorError
from evaluation.net import http_connection
from evaluation.net.http_connection import Connection, head_of
from evaluation.net.reply import Reply

REQUEST = head_of("POST", "/edit", {"Host": "example.org", "Content-Length": "2"})
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@contextlib.contextmanager
def connected() -> Iterator[tuple[Connection, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Connection("http://example.org", ours), theirs


def received(answer: bytes, *, hang_up: bool = True, max_bytes: int = 10_000) -> Reply:
    """What is made of an answer that is there before the request is sent."""
    with connected() as (connection, server):
        server.sendall(answer)
        if hang_up:
            server.shutdown(socket.SHUT_WR)
        return connection.exchange(REQUEST, b"hi", max_bytes, time.monotonic() + 5)


def test_the_request_is_sent_whole() -> None:
    with connected() as (connection, server):
        server.sendall(WHOLE)
        connection.exchange(REQUEST, b"hi", 100, time.monotonic() + 5)
        sent = server.recv(10_000)
    assert sent == (b"POST /edit HTTP/1.1\r\nHost: example.org\r\nContent-Length: 2\r\n\r\nhi")


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


@given(st.lists(st.integers(1, 60), max_size=8))
def test_it_does_not_matter_how_an_answer_is_cut(cuts: list[int]) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer += b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
    made = http_connection._Answer(100)
    for piece in pieces(answer, cuts):
        assert not made.complete
        made.feed(piece)
    assert made.complete
    assert made.keeps_alive
    assert (made.status, b"".join(made.chunks)) == (200, b"abcdefg")
    assert made.headers == {"content-type": "image/png", "transfer-encoding": "chunked"}


def pieces(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    for cut in cuts:
        if len(data) > cut:
            yield data[:cut]
            data = data[cut:]
    yield data


LINES = st.sampled_from(
    [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 100 Continue",
        b"HTTP/1.0 200 OK",
        b"Content-Length: 3",
        b"Content-Length: 99999999999999999999",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
        b"Content-Encoding: gzip",
        b"X: y",
        b"",
        b"0",
        b"3",
        b"abc",
        b"\0\xff",
    ]
)


@given(st.lists(LINES, max_size=12), st.binary(max_size=40))
@example([b"HTTP/1.1 200 OK", b"Content-Length: 3", b"", b"abc"], b"")
@example([b"", b"HTTP/1.1 200 OK", b"Content-Length: 3", b"", b"abc"], b"")
def test_what_is_accepted_another_parser_reads_alike(lines: list[bytes], rest: bytes) -> None:
    """Nonsense ends in one of the errors that are expected; h11 judges the rest."""
    answer = b"\r\n".join(lines) + rest
    try:
        reply = received(answer)
    except (EditorError, httptools.HttpParserError, zlib.error):
        return
    try:
        judged = by_h11(answer)
    except h11.RemoteProtocolError as error:
        if "no response line" in str(error):
            return  # the one thing llhttp forgives: empty lines before a head
        raise
    assert reply.status == judged[0]
    if b"Content-Encoding: gzip" not in lines:
        assert reply.body == judged[1]


def by_h11(answer: bytes) -> tuple[int, bytes]:
    """Status and body as h11 reads them."""
    judge = h11.Connection(h11.CLIENT)
    judge.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    judge.send(h11.EndOfMessage())
    judge.receive_data(answer)
    judge.receive_data(b"")
    status, body = 0, b""
    while not isinstance(event := judge.next_event(), (h11.EndOfMessage, h11.ConnectionClosed)):
        if isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
    return status, body


@pytest.mark.parametrize("headers", [{"X": "a\r\nY: b"}, {"X": "ключ"}, {"X\n": "a"}, {"": "a"}])
def test_what_is_not_http_is_not_sent(headers: dict[str, str]) -> None:
    with pytest.raises(EditorError, match="cannot be sent") as caught:
        head_of("GET", "/", headers)
    assert caught.value.permanent


@pytest.mark.parametrize(
    ("answer", "reusable"),
    [
        (WHOLE, True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
    ],
)
def test_a_connection_is_kept_when_the_server_keeps_it(answer: bytes, reusable: bool) -> None:
    with connected() as (connection, server):
        assert not connection.is_reusable
        server.sendall(answer)
        connection.exchange(REQUEST, b"hi", 100, time.monotonic() + 5)
        assert connection.is_reusable is reusable


def test_a_kept_connection_is_given_up_when_the_server_speaks_or_time_has_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with connected() as (connection, server):
        server.sendall(WHOLE)
        connection.exchange(REQUEST, b"hi", 100, time.monotonic() + 5)
        assert not connection.has_expired
        monkeypatch.setattr(http_connection, "KEEPALIVE_SECONDS", -1.0)
        assert connection.has_expired
        monkeypatch.undo()
        server.sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        assert connection.has_expired


def test_an_answer_that_came_before_all_was_sent_is_read() -> None:
    with connected() as (connection, server):
        server.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        server.close()
        answer = connection.exchange(REQUEST, b"x" * 5_000_000, 100, time.monotonic() + 5)
    assert (answer.status, answer.body) == (413, b"big")


def test_a_length_of_thousands_of_digits_is_a_number_all_the_same() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\nhello"
    assert received(head % (b"0" * 5_000 + b"5")).body == b"hello"
    with pytest.raises((EditorError, httptools.HttpParserError)):
        received(head % (b"9" * 5_000))


def chunked(*, status: int = 200) -> http_connection._Answer:
    made = http_connection._Answer(1_000)
    made.feed(b"HTTP/1.1 %d OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n" % status)
    return made


@pytest.mark.parametrize("start", [b"0\r\nX: ", b"1;a="])
def test_trailers_and_chunk_extensions_have_a_limit(start: bytes) -> None:
    made = chunked()
    made.feed(start)
    with pytest.raises((EditorError, httptools.HttpParserError)):
        consume(made.feed(b"y" * 65_536) for _ in range(1_000))
    assert made._raw < 4 * 2**20


def consume(steps: Iterable[object]) -> None:
    for _ in steps:
        pass


def test_of_an_error_only_the_beginning_is_read() -> None:
    body = b"e" * 10**6
    head = b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n" % len(body)
    with connected() as (connection, server):
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
        server.setblocking(False)
        server.send(head + body)
        reply = connection.exchange(REQUEST, b"hi", 2**30, time.monotonic() + 5)
    assert reply.status == 500
    assert len(reply.body) <= 2 * http_connection.MAX_ERROR_BYTES
    assert not connection.is_reusable
