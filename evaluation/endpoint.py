"""The guarded HTTP client every submitted URL goes through.

One client serves one endpoint and is shared by threads. A call ends with a
`Reply` of any status below or above 300, or with an EditorError that says whom
the fault concerns and whether asking again can help. What the client promises:

- The name is resolved once per connection, every address must be public, and
  the socket is opened to an address that was checked (evaluation.addresses).
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
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urljoin

import httpcore2

from evaluation import __version__
from evaluation.addresses import AddressRefused, Rules, Url
from evaluation.editors.base import EditorError, Fault
from evaluation.guarded_network import (
    CONNECT_SECONDS,
    GuardedNetwork,
    closed_error,
    protocol_error,
)

MAX_BODY_BYTES = 64 * 2**20
# Each piece of a body costs some microseconds: bytes sent one by one would cost minutes.
MAX_PIECES = 100_000
# Shorter than the 5 s after which common servers (uvicorn, Node) hang up, so that
# an edit is not sent into a connection that is just being closed.
KEEPALIVE_SECONDS = 4.0
USER_AGENT = f"ConvergeBench/{__version__}"

logger = logging.getLogger(__name__)
SecurityEvent = Callable[[str, str], None]


@dataclass(frozen=True)
class Reply:
    """A whole HTTP answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    seconds: float

    @property
    def media_type(self) -> str:
        """The stated type without parameters, such as "image/png"; "" when there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()[:100]


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
        max_connections: int = 256,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.rules = rules or Rules()
        self.max_bytes = max_bytes
        self._on_security_event = on_security_event
        self._network = GuardedNetwork(self.rules)
        self._pool = httpcore2.ConnectionPool(
            ssl_context=ssl_context or _trusted_authorities(),
            max_connections=max_connections,
            keepalive_expiry=KEEPALIVE_SECONDS,
            network_backend=self._network,
        )

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
        start = time.monotonic()
        deadline = start + timeout
        with self._reporting(kind):
            target = self.rules.parse(url)
            sent = {
                "Host": target.netloc,
                "Accept": "*/*",
                "Accept-Encoding": "identity",
                "User-Agent": USER_AGENT,
                **(headers or {}),
            }
            if content or method != "GET":
                sent["Content-Length"] = str(len(content))
            request = httpcore2.Request(
                method,
                httpcore2.URL(
                    scheme=target.scheme, host=target.host, port=target.port, target=target.target
                ),
                headers=[(k.encode("ascii"), v.encode("latin-1")) for k, v in sent.items()],
                content=content,
                # Our streams take these as points in time, not as durations, so that
                # a slow answer cannot start the clock again with each read.
                extensions={
                    "timeout": {
                        "connect": deadline,
                        "read": deadline,
                        "write": deadline,
                        "pool": timeout,
                    }
                },
            )
            status, answered, body = self._exchange(request, timeout, deadline)
        reply = Reply(status, answered, body, time.monotonic() - start)
        if 300 <= status < 400:
            self._refuse_redirect(url, reply, deadline)
        return reply

    def _exchange(
        self, request: httpcore2.Request, timeout: float, deadline: float
    ) -> tuple[int, dict[str, str], bytes]:
        try:
            response = self._pool.handle_request(request)
            try:
                headers = {
                    name.decode("latin-1").lower(): value.decode("latin-1")
                    for name, value in response.headers
                }
                return response.status, headers, self._read_body(response, headers, deadline)
            finally:
                response.close()
        except EditorError:
            raise
        except Exception as error:
            if self._network.closed:
                raise closed_error() from error
            # h11 quotes an unsendable header, which may be the one with the key.
            quotes_us = isinstance(error, httpcore2.LocalProtocolError)
            raise _failure(error, timeout) from (None if quotes_us else error)

    def _read_body(
        self, response: httpcore2.Response, headers: Mapping[str, str], deadline: float
    ) -> bytes:
        stated = headers.get("content-length", "")
        if stated.isdecimal() and int(stated) > self.max_bytes:
            raise _too_large(self.max_bytes)
        decode = _decoder(headers.get("content-encoding", ""))
        chunks: list[bytes] = []
        size = received = 0
        for chunk in response.iter_stream():
            received += len(chunk)
            if decode:
                chunk = decode(chunk, self.max_bytes + 1 - size)
            size += len(chunk)
            if size > self.max_bytes or received > self.max_bytes:
                raise _too_large(self.max_bytes)
            if time.monotonic() > deadline:
                raise httpcore2.ReadTimeout
            chunks.append(chunk)
            if len(chunks) > MAX_PIECES:
                raise protocol_error(f"the body comes in more than {MAX_PIECES:,} pieces")
        wire = response.extensions["network_stream"]
        if stated.isdecimal() and wire.body_received > int(stated):
            wire.close()  # what is left over would be read as the next answer
            raise protocol_error("the body is longer than its Content-Length")
        return b"".join(chunks)

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
        self._pool.close()


@lru_cache(maxsize=1)
def _trusted_authorities() -> ssl.SSLContext:
    """The system's certificate authorities; loading them takes longer than a call."""
    return httpcore2.default_ssl_context()


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


def _failure(error: Exception, timeout: float) -> EditorError:
    """What a failed exchange means. The exception's own text may quote the peer: it stays out."""
    match error:
        case httpcore2.ConnectTimeout():
            return EditorError("no connection within the time limit", fault=Fault.TIMEOUT)
        case httpcore2.TimeoutException():
            return EditorError(
                f"no complete answer within {timeout:g} s", fault=Fault.TIMEOUT, billed=True
            )
        case httpcore2.ConnectError():
            return EditorError(f"cannot connect: {error}", fault=Fault.UNREACHABLE)
        case httpcore2.RemoteProtocolError():
            return protocol_error("the answer is not complete, valid HTTP")
        case httpcore2.NetworkError():
            return EditorError(
                "the connection broke during the call", fault=Fault.UNREACHABLE, billed=True
            )
        case httpcore2.LocalProtocolError() | UnicodeError() | TypeError():
            return EditorError(
                "the request cannot be sent as HTTP", fault=Fault.CONFIGURATION, permanent=True
            )
        case zlib.error():
            return protocol_error("the compressed answer cannot be unpacked")
    raise error
