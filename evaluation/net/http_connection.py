"""HTTP/1.1 over a guarded socket: a request written whole, its answer read by llhttp.

Many calls in flight share one processor, and a client written in Python takes
more of it than everything else a call needs. llhttp, Node's parser, knows the
framing and is strict about it; the limits and the clock are here.

Measured under the same guard (`python -m evaluation.benchmarks.endpoint_calls`, November
2026, two busy cores): a call takes 0.13 ms of processor here, 0.47 ms through httpcore2 and
0.17 ms through libcurl; with a picture of 1.4 MB 1.5, 3.6 and 1.7 ms. In the worker, edits of
64 px a second fall by 3 to 17 % with httpcore2 and each takes a third more processor; at
1024 px decoding takes 80 ms and hides the difference.
"""

from __future__ import annotations

import re
import select
import socket
import time
import zlib
from collections.abc import Callable, Mapping

import httptools

from evaluation.errors import EditorError, Fault
from evaluation.net.guarded_sockets import protocol_error, seconds_left
from evaluation.net.large_answers import LARGE, LARGE_BYTES
from evaluation.net.reply import Reply

MAX_HEAD_BYTES = 64 * 2**10
# Each piece of a body costs some microseconds: bytes sent one by one would cost minutes.
MAX_PIECES = 100_000
RECEIVE_BYTES = 64 * 2**10
# Of an error only its words are read, and they are few.
MAX_ERROR_BYTES = 64 * 2**10
# What is not body after the head: sizes of chunks, their extensions, trailers.
MAX_FRAMING_BYTES = 2 * 2**20
# Shorter than the 5 s after which common servers (uvicorn, Node) hang up, so that
# an edit is not sent into a connection that is just being closed.
KEEPALIVE_SECONDS = 4.0

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class Connection:
    """A socket to one origin, for one call at a time."""

    def __init__(self, origin: str, sock: socket.socket) -> None:
        self.origin, self.sock = origin, sock
        self._idle_since: float | None = None  # None: in use, or not to be used again

    @property
    def is_reusable(self) -> bool:
        """Whether the last answer left it ready for another call."""
        return self._idle_since is not None

    @property
    def has_expired(self) -> bool:
        """Whether it has idled too long, or the server hung up or speaks unasked."""
        since = self._idle_since
        return (
            since is None
            or time.monotonic() - since > KEEPALIVE_SECONDS
            or self.sock.fileno() < 0
            or _is_readable(self.sock)
        )

    def exchange(self, head: bytes, content: bytes, max_bytes: int, deadline: float) -> Reply:
        """The answer with its decoded body.

        EditorError, TimeoutError, OSError, zlib.error or HttpParserError otherwise.
        """
        self._idle_since = None
        small = len(content) < RECEIVE_BYTES
        for part in (head + content,) if small else (head, content):
            self._send(part, deadline)
        answer = _Answer(max_bytes)
        while not answer.complete:
            self.sock.settimeout(seconds_left(deadline))
            data = self.sock.recv(answer.room)
            if not data:
                answer.end_with_connection()
                break
            answer.feed(data)
            if answer.size > LARGE_BYTES:
                LARGE.wait(seconds_left(deadline))
        if answer.keeps_alive:
            self._idle_since = time.monotonic()
        return Reply(answer.status, answer.headers, b"".join(answer.chunks))

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        try:
            while view:
                self.sock.settimeout(seconds_left(deadline))
                view = view[self.sock.send(view) :]
        except TimeoutError:
            raise
        except OSError:
            pass  # a server may answer, and hang up, before it has read all


class _Answer:
    """An answer while it arrives; llhttp calls the methods that begin with on_."""

    def __init__(self, max_bytes: int) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.chunks: list[bytes] = []
        self.complete = self.keeps_alive = False
        self._max_bytes = max_bytes
        self._parser = httptools.HttpResponseParser(self)
        self._raw = 0
        self._head_bytes = self._pieces = self._received = self._size = 0
        self._head_ended = self._surplus = False
        self._arrived: list[bytes] = []
        self._decode: Callable[[bytes, int], bytes] | None = None

    @property
    def size(self) -> int:
        """How many bytes of the body are here, decoded."""
        return self._size

    @property
    def _is_error(self) -> bool:
        return self.status >= 300

    @property
    def room(self) -> int:
        """How many bytes may be received next: no more of a head than its limit."""
        return RECEIVE_BYTES if self._head_ended else MAX_HEAD_BYTES + 1 - self._head_bytes

    def feed(self, data: bytes) -> None:
        """Take in what was received; raises what is wrong with it."""
        in_head = not self._head_ended
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise protocol_error("the answer changes the protocol") from None
        except httptools.HttpParserError:
            if not self.complete:
                raise
            self._surplus = True
        if self._surplus:  # or it would be read as the next answer
            raise protocol_error("the body is longer than its Content-Length")
        if in_head:
            self._head_bytes += len(data)
            if self._head_ended:
                self._look_at_head()
            elif self._head_bytes > MAX_HEAD_BYTES:
                raise protocol_error(f"the head of the answer exceeds {MAX_HEAD_BYTES:,} bytes")
        else:
            self._raw += len(data)
        self._take()
        if self._raw - self._received > MAX_FRAMING_BYTES:
            raise protocol_error(
                f"chunk extensions and trailers exceed {MAX_FRAMING_BYTES:,} bytes"
            )

    def end_with_connection(self) -> None:
        """The server hung up, which ends a body of no stated length."""
        stated = {"content-length", "transfer-encoding"} & self.headers.keys()
        if not self._head_ended or stated:
            raise protocol_error("the answer is not complete, valid HTTP")

    def _look_at_head(self) -> None:
        """Refuse what need not be read."""
        # llhttp saw that it is a number; thousands of digits are more than Python reads.
        stated = self.headers.get("content-length", "").lstrip("0") or "0"
        if not self._is_error and (len(stated) > 15 or int(stated) > self._max_bytes):
            raise _too_large(self._max_bytes)
        self._decode = _decoder(self.headers.get("content-encoding", ""))

    def _take(self) -> None:
        """Decode and count what arrived of the body."""
        if self._pieces > MAX_PIECES:
            raise protocol_error(f"the body comes in more than {MAX_PIECES:,} pieces")
        arrived, self._arrived = b"".join(self._arrived), []
        self._received += len(arrived)
        if self._decode:
            limit = min(self._max_bytes, MAX_ERROR_BYTES) if self._is_error else self._max_bytes
            arrived = self._decode(arrived, limit + 1 - self._size)
        self._size += len(arrived)
        self.chunks.append(arrived)
        if self._is_error and max(self._size, self._received) >= MAX_ERROR_BYTES:
            self.complete, self.keeps_alive = True, False  # the rest is not read
        elif max(self._size, self._received) > self._max_bytes:
            raise _too_large(self._max_bytes)

    def on_message_begin(self) -> None:
        self._surplus = self.complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_ended:  # what follows the body says nothing that we need
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if not self._surplus:
            self.status = self._parser.get_status_code()
            self._head_ended = self.status >= 200

    def on_body(self, piece: bytes) -> None:
        self._arrived.append(piece)
        self._pieces += 1

    def on_message_complete(self) -> None:
        if self._head_ended:
            self.complete = True
            self.keeps_alive = self._parser.should_keep_alive()
        else:  # "100 Continue" and the like come before the true head, and may come for ever
            self.headers = {}


def head_of(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """The request's head; EditorError, which quotes nothing of it, where it is not HTTP."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise EditorError(
                "the request cannot be sent as HTTP", fault=Fault.CONFIGURATION, permanent=True
            )
    lines = [f"{method} {target} HTTP/1.1", *map(": ".join, headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _is_readable(sock: socket.socket) -> bool:
    poll = select.poll()  # select() fails for descriptors above 1023
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _decoder(encoding: str) -> Callable[[bytes, int], bytes] | None:
    """Undoes a Content-Encoding we did not ask for, never giving more bytes than told to."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise EditorError(
            f"the answer is compressed ({name[:40]!r}) although identity was asked for",
            fault=Fault.SERVER_ERROR,
            permanent=True,
        )
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress


def _too_large(limit: int) -> EditorError:
    return EditorError(
        f"response too large: more than {limit / 2**20:.3g} MB",
        fault=Fault.BAD_ANSWER,
        permanent=True,
        billed=True,
    )
