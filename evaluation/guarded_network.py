"""Sockets for the guarded client: dialled to checked addresses, bound by deadlines.

httpcore2 speaks HTTP over these streams. It hands its `timeout` arguments
through untouched, and here they are points on the monotonic clock, not
durations: a peer that drips bytes cannot start the clock again with each read.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LookupTimeout
from functools import cached_property
from typing import Any

import httpcore2
from ssrfguard import Address

from evaluation.addresses import AddressRefused, Rules, Url
from evaluation.editors.base import EditorError, Fault

MAX_HEAD_BYTES = 64 * 2**10
CONNECT_SECONDS = 10.0
CONNECT_ATTEMPTS = 4


class GuardedNetwork(httpcore2.NetworkBackend):
    """Opens sockets to checked addresses only, and can shut all of them at once."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.closed = False
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()

    @cached_property
    def _lookups(self) -> ThreadPoolExecutor:
        # getaddrinfo takes no timeout: a hostile name server may hold these few threads,
        # but no call beyond its deadline.
        return ThreadPoolExecutor(max_workers=16, thread_name_prefix="lookup")

    def resolve(self, url: Url, deadline: float) -> tuple[Address, ...]:
        """The checked addresses of the URL's host; AddressRefused or EditorError otherwise."""
        if self.closed:
            raise closed_error()
        if url.literal:
            return self.rules.resolve(url)
        lookup = self._lookups.submit(self.rules.resolve, url)
        try:
            return lookup.result(timeout=max(0.0, deadline - time.monotonic()))
        except LookupTimeout:
            raise EditorError(
                f"cannot resolve the host name {url.host}: no answer in time",
                fault=Fault.UNREACHABLE,
            ) from None

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.NetworkStream:
        deadline = time.monotonic() + CONNECT_SECONDS if timeout is None else timeout
        failure = OSError("no address")
        for address in self.resolve(Url("https", host, port, "/"), deadline)[:CONNECT_ATTEMPTS]:
            try:
                return _Stream(self._dial(address, deadline), self)
            except OSError as error:
                failure = error
        if isinstance(failure, TimeoutError):
            raise httpcore2.ConnectTimeout from failure
        raise httpcore2.ConnectError(failure.strerror or str(failure)) from failure

    def _dial(self, address: Address, deadline: float) -> socket.socket:
        sock = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            self.add(sock)
            sock.settimeout(min(CONNECT_SECONDS, _left(deadline)))
            sock.connect(address.sockaddr)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A public address that is our own is reached from itself.
            if not self.rules.allow_local and sock.getsockname()[0] == sock.getpeername()[0]:
                raise AddressRefused(
                    "own_server",
                    "cannot benchmark this server",
                    fault=Fault.BLOCKED,
                    detail=f"{address} is an address of this machine",
                )
        except BaseException:
            self.drop(sock)
            raise
        return sock

    def add(self, sock: socket.socket) -> None:
        """Remember an open socket, so that `close` reaches it."""
        with self._lock:
            if not self.closed:
                self._sockets.add(sock)
                return
        sock.close()
        raise closed_error()

    def drop(self, sock: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(sock)
        sock.close()

    def close(self) -> None:
        """Wake every thread that waits on a socket, and open no further one."""
        with self._lock:
            self.closed = True
            sockets = list(self._sockets)
        for sock in sockets:
            # Not close(): a thread that waits in recv() would not notice. And not the
            # SSLSocket's own shutdown(), which takes the TLS state away under that thread.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        self._lookups.shutdown(wait=False, cancel_futures=True)


class _Stream(httpcore2.NetworkStream):
    """A connection whose `timeout` arguments are deadlines on the monotonic clock."""

    _end_of_head = re.compile(rb"\n\r?\n")

    def __init__(self, sock: socket.socket, network: GuardedNetwork) -> None:
        self._sock = sock
        self._network = network
        self._head: bytearray | None = bytearray()
        self._interim = 0
        self.body_received = 0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            self._sock.settimeout(_left(timeout))
            data = self._sock.recv(max_bytes)
        except TimeoutError:
            raise httpcore2.ReadTimeout from None
        except OSError as error:
            raise httpcore2.ReadError(str(error)) from error
        self._count(data)
        return data

    def _count(self, data: bytes) -> None:
        """Follow where the head ends: to limit it, and to know the body's true length."""
        if self._head is None:
            self.body_received += len(data)
            return
        seen = max(0, len(self._head) - 2)  # a drip of single bytes must not cost a scan each
        self._head += data
        while end := self._end_of_head.search(self._head, seen):
            rest = self._head[end.end() :]
            if not self._head[:12].endswith((b" 100", b" 102", b" 103")):
                self._head, self.body_received = None, len(rest)
                break
            # "100 Continue" and the like come before the true head, and may come for ever.
            self._interim += end.end()
            self._head, seen = rest, 0
        if self._interim + len(self._head or b"") > MAX_HEAD_BYTES:
            raise protocol_error(f"the head of the answer exceeds {MAX_HEAD_BYTES:,} bytes")

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._head, self._interim, self.body_received = bytearray(), 0, 0
        view = memoryview(buffer)
        try:
            while view:
                self._sock.settimeout(_left(timeout))
                view = view[self._sock.send(view) :]
        except TimeoutError:
            raise httpcore2.WriteTimeout from None
        except OSError as error:
            # httpcore2 goes on to read: a server may answer before it has read all.
            raise httpcore2.WriteError(str(error)) from error

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        # The set must know the TLS socket before the handshake: wrapping takes the
        # file descriptor away from the plain one.
        sock = ssl_context.wrap_socket(
            self._sock, server_hostname=server_hostname, do_handshake_on_connect=False
        )
        self._network.drop(self._sock)
        self._network.add(sock)
        try:
            sock.settimeout(_left(timeout))
            sock.do_handshake()  # its time-out counts for all of its reads and writes
        except OSError as error:
            self._network.drop(sock)
            raise _handshake_failure(error) from error
        return _Stream(sock, self._network)

    def close(self) -> None:
        self._network.drop(self._sock)

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object" and isinstance(self._sock, ssl.SSLSocket):
            return self._sock
        if info == "is_readable":
            return self._sock.fileno() < 0 or _is_readable(self._sock)
        return None


def _left(deadline: float | None) -> float:
    """The seconds until a deadline; TimeoutError when there are none."""
    left = CONNECT_SECONDS if deadline is None else deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _is_readable(sock: socket.socket) -> bool:
    poll = select.poll()  # select() fails for descriptors above 1023
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _handshake_failure(error: OSError) -> Exception:
    if isinstance(error, TimeoutError):
        return httpcore2.ConnectTimeout()
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"the TLS certificate is not valid: {error.verify_message}"
    elif isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        reason = (error.reason or "unknown reason").replace("_", " ").lower()
        message = f"no TLS connection can be made: {reason}"
    else:
        return httpcore2.ConnectError("the connection was closed during the TLS handshake")
    return EditorError(message, fault=Fault.TLS, permanent=True)


def closed_error() -> EditorError:
    return EditorError("the call was ended from our side", fault=Fault.UNREACHABLE)


def protocol_error(what: str) -> EditorError:
    return EditorError(f"protocol error: {what}", fault=Fault.SERVER_ERROR, billed=True)
