"""Sockets for the guarded client: dialled to checked addresses, and shut all at once.

A deadline is a point on the monotonic clock, so that a peer that drips bytes
cannot start the clock again with each of them.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LookupTimeout
from functools import cached_property, lru_cache

import httpcore2
from ssrfguard import Address

from evaluation.errors import EditorError, Fault
from evaluation.net.addresses import AddressRefused, Rules, Unresolved, Url

CONNECT_SECONDS = 10.0
CONNECT_ATTEMPTS = 4


class GuardedNetwork:
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
            raise Unresolved(
                f"cannot resolve the host name {url.host}: no answer in time",
                fault=Fault.UNREACHABLE,
            ) from None

    def connect(
        self, url: Url, authorities: ssl.SSLContext | None, deadline: float
    ) -> socket.socket:
        """A connected socket, with TLS where `authorities` are given; EditorError otherwise."""
        failure: OSError | None = None
        for address in self.resolve(url, deadline)[:CONNECT_ATTEMPTS]:
            try:
                sock = self._dial(address, deadline)
            except OSError as error:
                failure = error
                continue
            return sock if authorities is None else self.with_tls(sock, url, authorities, deadline)
        if self.closed:
            raise closed_error()
        if isinstance(failure, TimeoutError):
            raise _no_connection() from failure
        why = (failure and (failure.strerror or str(failure))) or "no address"
        raise EditorError(f"cannot connect: {why}", fault=Fault.UNREACHABLE) from failure

    def _dial(self, address: Address, deadline: float) -> socket.socket:
        sock = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            self.add(sock)
            sock.settimeout(min(CONNECT_SECONDS, seconds_left(deadline)))
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

    def with_tls(
        self, plain: socket.socket, url: Url, authorities: ssl.SSLContext, deadline: float
    ) -> ssl.SSLSocket:
        """The same connection with TLS, its certificate checked for the URL's host."""
        # The set must know the TLS socket before the handshake: wrapping takes the
        # file descriptor away from the plain one.
        sock = authorities.wrap_socket(
            plain, server_hostname=url.host, do_handshake_on_connect=False
        )
        self.drop(plain)
        self.add(sock)
        try:
            sock.settimeout(seconds_left(deadline))
            sock.do_handshake()  # its time-out counts for all of its reads and writes
        except OSError as error:
            self.drop(sock)
            if self.closed:
                raise closed_error() from error
            raise _handshake_failure(error) from error
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


@lru_cache(maxsize=1)
def trusted_authorities() -> ssl.SSLContext:
    """The system's certificate authorities; loading them takes longer than a call."""
    return httpcore2.default_ssl_context()


def seconds_left(deadline: float) -> float:
    """The seconds until a deadline; TimeoutError when there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _no_connection() -> EditorError:
    return EditorError("no connection within the time limit", fault=Fault.TIMEOUT)


def _handshake_failure(error: OSError) -> EditorError:
    if isinstance(error, TimeoutError):
        return _no_connection()
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"the TLS certificate is not valid: {error.verify_message}"
    elif isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        reason = (error.reason or "unknown reason").replace("_", " ").lower()
        message = f"no TLS connection can be made: {reason}"
    else:
        closed = "cannot connect: the connection was closed during the TLS handshake"
        return EditorError(closed, fault=Fault.UNREACHABLE)
    return EditorError(message, fault=Fault.TLS, permanent=True)


def closed_error() -> EditorError:
    return EditorError("the call was ended from our side", fault=Fault.UNREACHABLE)


def protocol_error(what: str) -> EditorError:
    return EditorError(f"protocol error: {what}", fault=Fault.SERVER_ERROR, billed=True)
