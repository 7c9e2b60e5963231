"""A network backend for httpcore2: checked addresses, one deadline, one byte budget.

httpcore2's timeouts are per read, so a peer that drips bytes could block a call for ever. Here
every read and write ends at the deadline of the call's `Budget`, which also covers the requests
that an SDK sends within the call.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LookupTimeout
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import httpcore2

from evaluation.errors import Fault
from evaluation.net.addresses import AddressRefused, Rules, Unresolved, Url

CONNECT_SECONDS = 10.0
CONNECT_ATTEMPTS = 4

#: Family and address of a socket.
SocketAddress = tuple[socket.AddressFamily, Any]


class TooLarge(Exception):
    """More bytes were received than the call's budget allows."""


@dataclass
class Budget:
    """The time and the bytes left for one call; `sent` is True once anything was sent."""

    timeout: float
    deadline: float  # on the monotonic clock
    bytes_left: int
    sent: bool = False

    def seconds_left(self) -> float:
        """Return the seconds until the deadline. Raises TimeoutError if it has passed."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


#: The budget of the call that this thread is making.
current_budget: ContextVar[Budget] = ContextVar("current_budget")


class Backend(httpcore2.NetworkBackend):
    """A backend that dials only allowed addresses and can close all sockets at once.

    Without rules every address is allowed, since the operator configured the addresses.
    """

    def __init__(self, rules: Rules | None) -> None:
        self.rules = rules
        self.closed = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()

    @cached_property
    def _lookups(self) -> ThreadPoolExecutor:
        # In threads, because getaddrinfo has no timeout: a hostile name server may block these few
        # threads, but no call beyond its deadline.
        return ThreadPoolExecutor(max_workers=16, thread_name_prefix="lookup")

    def resolve(self, host: str, port: int) -> list[SocketAddress]:
        """Look up the host once. Raises AddressRefused unless all its addresses are allowed."""
        url = Url("https", host, port, "/")
        if url.literal:
            return self._resolve(url)
        lookup = self._lookups.submit(self._resolve, url)
        try:
            return lookup.result(timeout=current_budget.get().seconds_left())
        except (LookupTimeout, TimeoutError):
            raise Unresolved(
                f"cannot resolve the host name {host}: no answer in time", fault=Fault.UNREACHABLE
            ) from None

    def _resolve(self, url: Url) -> list[SocketAddress]:
        if self.rules:
            return [(resolved.family, resolved.sockaddr) for resolved in self.rules.resolve(url)]
        try:
            rows = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise Unresolved(
                f"cannot resolve the host name {url.host}", fault=Fault.UNREACHABLE
            ) from error
        return [(family, address) for family, _, _, _, address in rows]

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        failure = OSError("no address")
        for family, address in self.resolve(host, port)[:CONNECT_ATTEMPTS]:
            try:
                return Stream(self._dial(family, address), self)
            except OSError as error:
                failure = error
        raise failure

    def _dial(self, family: socket.AddressFamily, address: Any) -> socket.socket:
        sock = self.add(socket.socket(family, socket.SOCK_STREAM))
        try:
            sock.settimeout(min(CONNECT_SECONDS, current_budget.get().seconds_left()))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # If both ends have the same address, this machine has dialled itself.
            guarded = self.rules and not self.rules.allow_local
            if guarded and sock.getsockname()[0] == sock.getpeername()[0]:
                raise AddressRefused(
                    "own_server",
                    "cannot benchmark this server",
                    fault=Fault.BLOCKED,
                    detail=f"{address[0]} is an address of this machine",
                )
        except BaseException:
            self.drop(sock)
            raise
        return sock

    def add(self, sock: socket.socket) -> socket.socket:
        """Register an open socket, so that `close` can shut it."""
        with self._lock:
            if not self.closed.is_set():
                self._sockets.add(sock)
                return sock
        sock.close()
        raise ConnectionAbortedError("closed")

    def drop(self, sock: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(sock)
        sock.close()

    def close(self) -> None:
        """Wake every thread that waits on a socket; open no more sockets."""
        with self._lock:
            self.closed.set()
            sockets = list(self._sockets)
        for sock in sockets:
            # close() would not wake a thread that waits in recv(), and SSLSocket.shutdown() would
            # remove the TLS state that the waiting thread still uses.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        self._lookups.shutdown(wait=False, cancel_futures=True)


class Stream(httpcore2.NetworkStream):
    """A connected socket whose reads and writes count against the current budget."""

    def __init__(self, sock: socket.socket, backend: Backend) -> None:
        self._sock = sock
        self._backend = backend

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        budget = current_budget.get()
        self._sock.settimeout(budget.seconds_left())
        data = self._sock.recv(max_bytes)
        budget.bytes_left -= len(data)
        if budget.bytes_left < 0:
            raise TooLarge
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        budget = current_budget.get()
        budget.sent = True
        view = memoryview(buffer)
        try:
            while view:
                self._sock.settimeout(budget.seconds_left())
                view = view[self._sock.send(view) :]
        except TimeoutError:
            raise
        except OSError as error:
            # After a WriteError httpcore2 still reads: a server may answer and hang up before it
            # has read everything.
            raise httpcore2.WriteError from error

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        # Register the TLS socket, which has taken over the file descriptor, before the handshake.
        sock = ssl_context.wrap_socket(
            self._sock, server_hostname=server_hostname, do_handshake_on_connect=False
        )
        self._backend.drop(self._sock)
        self._backend.add(sock)
        try:
            sock.settimeout(current_budget.get().seconds_left())
            sock.do_handshake()  # the timeout covers the whole handshake
        except BaseException:
            self._backend.drop(sock)
            raise
        return Stream(sock, self._backend)

    def close(self) -> None:
        self._backend.drop(self._sock)

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object":
            return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
        if info == "is_readable":
            return self._is_readable()
        return None

    def _is_readable(self) -> bool:
        """Return True if the server hung up or sent data without a request."""
        if self._sock.fileno() < 0:
            return True
        poll = select.poll()  # select() fails for descriptors above 1023
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))


@lru_cache(maxsize=1)
def trusted_authorities() -> ssl.SSLContext:
    """Load the system's certificate authorities only once: loading takes longer than a call."""
    return httpcore2.default_ssl_context()
