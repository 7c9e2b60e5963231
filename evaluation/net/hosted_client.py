"""A HTTP client for hosted models whose every call ends: by clock, by size, or when closed.

httpx2's timeouts are per read, so a server that drips bytes holds a call for
ever. Here the deadline sits below the client, where the SDKs, which bring no
wall clock of their own, get it too.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpcore2
import httpx2

from evaluation.net.guarded_sockets import trusted_authorities
from evaluation.net.reply import Reply

# A base64 picture of the largest size we accept, with room for its envelope.
MAX_BODY = 96 * 2**20


@dataclass
class Limits:
    """What is left for one call, and how far it got."""

    deadline: float
    bytes_left: int
    sent: bool = False
    overflow: bool = False

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()


_limits: ContextVar[Limits | None] = ContextVar("limits", default=None)


class Wire:
    """One connection pool, shared by the threads that share an editor."""

    def __init__(self, *, max_body: int = MAX_BODY) -> None:
        self.max_body = max_body
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._backend = _Backend(self._closed)
        self._client: httpx2.Client | None = None

    @property
    def client(self) -> httpx2.Client:
        """The client, to be handed to SDKs; made on first use, as its TLS context takes a while."""
        with self._lock:
            if self._client is None:
                client = httpx2.Client(
                    timeout=None,  # the deadline is in the backend
                    follow_redirects=False,
                    verify=trusted_authorities(),
                    headers={"accept-encoding": "identity"},
                    # Shorter than common servers wait: no edit is sent into a closing connection.
                    limits=httpx2.Limits(max_connections=None, keepalive_expiry=4.0),
                )
                # The one seam that also covers HTTPS_PROXY and friends.
                for transport in (client._transport, *client._mounts.values()):
                    if isinstance(transport, httpx2.HTTPTransport):
                        transport._pool._network_backend = self._backend
                self._client = client
            return self._client

    @contextlib.contextmanager
    def call(self, seconds: float) -> Iterator[Limits]:
        """Everything sent inside, by us or by an SDK, has to end within `seconds`."""
        limits = Limits(time.monotonic() + seconds, self.max_body)
        token = _limits.set(limits)
        try:
            yield limits
        finally:
            _limits.reset(token)

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        files: Any = None,
    ) -> Reply:
        """The whole answer, whatever its status; raises httpx2.HTTPError."""
        with self.client.stream(method, url, headers=headers, json=json, files=files) as response:
            body = bytearray()
            # Decoded bytes: a server may compress although we asked it not to.
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > self.max_body:
                    if limits := _limits.get():
                        limits.overflow = True
                    raise httpx2.ReadError("the answer is too large")
            return Reply(response.status_code, response.headers, bytes(body))

    def sleep(self, seconds: float) -> None:
        """Wait, but no longer than the call may last, nor past `close`."""
        limits = _limits.get()
        left = limits.seconds_left if limits else seconds
        if self._closed.wait(max(0.0, min(seconds, left))):
            raise httpx2.ReadError("closed")
        if left <= seconds:
            raise httpx2.ReadTimeout("the deadline has passed")

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        """End the calls in flight now; later ones fail at once."""
        self._closed.set()
        self._backend.shut_down()
        with self._lock:
            if self._client is not None:
                self._client.close()


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, closed: threading.Event) -> None:
        self._inner = httpcore2.SyncBackend()
        self._closed = closed
        self._lock = threading.Lock()
        self._open: set[_Stream] = set()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        left = _time_left(timeout, httpcore2.ConnectTimeout)
        stream = self._inner.connect_tcp(host, port, left, local_address, socket_options)
        return self.adopt(stream)

    def adopt(self, stream: httpcore2.NetworkStream) -> _Stream:
        ours = _Stream(stream, self)
        with self._lock:
            self._open.add(ours)
        if self._closed.is_set():  # closed while we were connecting
            ours.close()
            raise httpcore2.ConnectError("closed")
        return ours

    def forget(self, stream: _Stream) -> None:
        with self._lock:
            self._open.discard(stream)

    def shut_down(self) -> None:
        with self._lock:
            streams = list(self._open)
        for stream in streams:
            stream.shut_down()


class _Stream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream, backend: _Backend) -> None:
        self._inner = inner
        self._backend = backend

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = self._inner.read(max_bytes, _time_left(timeout, httpcore2.ReadTimeout))
        if limits := _limits.get():
            limits.bytes_left -= len(data)
            if limits.bytes_left < 0:
                limits.overflow = True
                raise httpcore2.ReadError("the answer is too large")
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if limits := _limits.get():
            limits.sent = True
        self._inner.write(buffer, _time_left(timeout, httpcore2.WriteTimeout))

    def close(self) -> None:
        self._backend.forget(self)
        self._inner.close()

    def shut_down(self) -> None:
        # close() would leave a thread waiting in recv(); shutdown() wakes it. On the plain
        # socket: SSLSocket's own would take the TLS state away under the reader.
        sock = self._inner.get_extra_info("socket")
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        left = _time_left(timeout, httpcore2.ConnectTimeout)
        stream = self._inner.start_tls(ssl_context, server_hostname, left)
        self._backend.forget(self)
        return self._backend.adopt(stream)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _time_left(timeout: float | None, too_late: type[Exception]) -> float | None:
    limits = _limits.get()
    if limits is None:
        return timeout
    left = limits.seconds_left
    if left <= 0:
        raise too_late("the deadline has passed")
    return left if timeout is None else min(timeout, left)
