"""The guarded HTTP client every submitted URL goes through.

One client serves one endpoint and is shared by threads. A call ends with a
`Reply` of any status below or above 300, or with an EditorError that says whom
the fault concerns and whether asking again can help. What the client promises:

- The name is resolved once per connection, every address must be public, and
  the socket is opened to an address that was checked (evaluation.net.addresses).
- `timeout` is wall time for the whole call: name, connection, TLS, sending,
  every byte of the answer. Dripping bytes do not prolong it.
- Head and body are limited, the body by its decoded bytes.
- Redirects are not followed, the environment's proxies and netrc not read,
  cookies not kept.
- `close()` ends the calls in flight at once.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import urljoin

import httptools

from evaluation import __version__
from evaluation.errors import EditorError, Fault
from evaluation.net.addresses import AddressRefused, Rules, Url
from evaluation.net.guarded_sockets import (
    CONNECT_SECONDS,
    GuardedNetwork,
    closed_error,
    protocol_error,
    trusted_authorities,
)
from evaluation.net.http_connection import Connection, head_of
from evaluation.net.reply import Reply

MAX_BODY_BYTES = 64 * 2**20
USER_AGENT = f"ConvergeBench/{__version__}"

logger = logging.getLogger(__name__)
SecurityEvent = Callable[[str, str], None]


class GuardedClient:
    """Calls URLs that strangers wrote. See the module's docstring for what it promises.

    `on_security_event(kind, detail)` hears of every blocked attempt; kinds are
    "address" (the endpoint's own), "redirect" and "answer_url".
    """

    def __init__(
        self,
        rules: Rules | None = None,
        *,
        on_security_event: SecurityEvent | None = None,
        max_bytes: int = MAX_BODY_BYTES,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.rules = rules or Rules()
        self.max_bytes = max_bytes
        self._on_security_event = on_security_event
        self._parse = lru_cache(maxsize=64)(self.rules.parse)  # the same few, thousands of times
        self._network = GuardedNetwork(self.rules)
        self._ssl_context = ssl_context or trusted_authorities()
        self._lock = threading.Lock()
        self._idle: deque[Connection] = deque()  # the longest idle first

    def parse(self, url: str) -> Url:
        """The URL in its parts when it may be called, by its text alone."""
        with self._reporting("address"):
            return self.rules.parse(url)

    def check(self, url: str, *, timeout: float = CONNECT_SECONDS) -> Url:
        """The parsed URL when it may be called as things stand; else AddressRefused.

        For the moment of submission: it resolves the name, but what it found is
        forgotten. Every connection resolves and checks again.
        """
        with self._reporting("address"):
            parsed = self.rules.parse(url)
            self._network.resolve(parsed, time.monotonic() + timeout)
            return parsed

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        timeout: float,
        kind: str = "address",
    ) -> Reply:
        """The reply to one request. `kind` names the security event if the URL is blocked."""
        deadline = time.monotonic() + timeout
        with self._reporting(kind):
            target = self._parse(url)
            sent = {
                "Host": target.netloc,
                "Accept": "*/*",
                "Accept-Encoding": "identity",
                "User-Agent": USER_AGENT,
                **(headers or {}),
            }
            if content or method != "GET":
                sent["Content-Length"] = str(len(content))
            try:
                reply = self._exchange(method, target, sent, content, deadline)
            except Exception as error:
                if self._network.closed:
                    raise closed_error() from error
                if isinstance(error, EditorError):
                    raise
                raise _failure(error, timeout) from error
        if 300 <= reply.status < 400:
            self._refuse_redirect(url, reply, deadline)
        return reply

    def _exchange(
        self, method: str, target: Url, headers: Mapping[str, str], content: bytes, deadline: float
    ) -> Reply:
        head = head_of(method, target.target, headers)
        with self._connection(target, deadline) as connection:
            return connection.exchange(head, content, self.max_bytes, deadline)

    @contextlib.contextmanager
    def _connection(self, target: Url, deadline: float) -> Iterator[Connection]:
        """A connection for one call alone, kept for the next one where it can be."""
        connection = self._idle_connection(target.origin)
        if connection is None:
            authorities = self._ssl_context if target.scheme == "https" else None
            sock = self._network.connect(target, authorities, deadline)
            connection = Connection(target.origin, sock)
        try:
            yield connection
        finally:
            with self._lock:
                if kept := connection.is_reusable and not self._network.closed:
                    self._idle.append(connection)
            if not kept:
                self._network.drop(connection.sock)

    def _idle_connection(self, origin: str) -> Connection | None:
        """One to this origin that is still good; those that idled too long are closed."""
        while True:
            with self._lock:
                while self._idle and self._idle[0].has_expired:
                    self._network.drop(self._idle.popleft().sock)
                fitting = (one for one in reversed(self._idle) if one.origin == origin)
                if (connection := next(fitting, None)) is None:
                    return None
                self._idle.remove(connection)
            if not connection.has_expired:
                return connection
            self._network.drop(connection.sock)

    def _refuse_redirect(self, url: str, reply: Reply, deadline: float) -> None:
        """Raise: a redirect is never followed, and one to a private host is reported."""
        with self._reporting("redirect"):
            try:
                location = urljoin(url, reply.headers.get("location", ""))
            except ValueError:
                location = ""
            target = self.rules.parse(location)
            self._network.resolve(target, deadline)
        raise EditorError(
            f"the endpoint redirects ({reply.status}) to {target.origin}; redirects are not "
            "followed: give the final address",
            fault=Fault.CONFIGURATION,
            permanent=True,
        )

    @contextlib.contextmanager
    def _reporting(self, kind: str) -> Iterator[None]:
        """Tell of blocked addresses; malformed ones are somebody's typing error."""
        try:
            yield
        except AddressRefused as refused:
            if refused.fault is Fault.BLOCKED and self._on_security_event:
                try:
                    self._on_security_event(kind, refused.detail)
                except Exception:
                    # The call stays blocked, and its caller must hear why.
                    logger.exception("a security event was not recorded")
            raise

    def close(self) -> None:
        """End every call in flight; later calls fail at once."""
        self._network.close()
        with self._lock:
            while self._idle:
                self._network.drop(self._idle.pop().sock)


def _failure(error: Exception, timeout: float) -> EditorError:
    """What a failed exchange means. The exception's own text may quote the peer: it stays out."""
    match error:
        case TimeoutError():
            return EditorError(
                f"no complete answer within {timeout:g} s", fault=Fault.TIMEOUT, billed=True
            )
        case OSError():
            return EditorError(
                "the connection broke during the call", fault=Fault.UNREACHABLE, billed=True
            )
        case httptools.HttpParserError():
            return protocol_error("the answer is not complete, valid HTTP")
        case zlib.error():
            return protocol_error("the compressed answer cannot be unpacked")
    raise error
