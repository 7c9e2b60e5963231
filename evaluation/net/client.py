"""The HTTP client of submitted endpoints, hosted providers and judges.

One client serves one editor and is shared by threads. A call ends with a `Reply` of any
status, or with an EditorError that says whom the fault concerns and whether another
attempt can help. The client's promises:

- With `rules`, the name is resolved once per connection, every address must be allowed,
  and the socket is opened to an address that was checked; a redirect is checked, refused
  and never followed; the environment's proxies are not used.
- The timeout is wall time for the whole call: name, connection, TLS, sending, every byte
  of the answer. Dripping bytes do not prolong it.
- Head and body are limited, the body by its decoded bytes.
- netrc is not read, cookies are not kept.
- `close()` ends the calls in flight at once.
"""

from __future__ import annotations

import contextlib
import json as jsons
import logging
import ssl
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import urljoin

import httpcore2
import httpx2

from evaluation import __version__
from evaluation.errors import EditorError, Fault
from evaluation.net.addresses import AddressRefused, Rules, Url
from evaluation.net.backend import (
    CONNECT_SECONDS,
    Backend,
    Budget,
    TooLarge,
    current_budget,
    trusted_authorities,
)
from evaluation.net.large_answers import LARGE, LARGE_BYTES

MAX_BODY_BYTES = 64 * 2**20
#: Heads, sizes of chunks, their extensions, trailers.
MAX_FRAMING_BYTES = 2 * 2**20
#: Each piece of a body costs some microseconds: bytes sent one by one would cost minutes.
MAX_PIECES = 100_000
#: Of an error only its message is read.
MAX_ERROR_BYTES = 64 * 2**10
#: Shorter than the 5 s after which common servers (uvicorn, Node) hang up, so that
#: an edit is not sent into a connection that is just being closed.
KEEPALIVE_SECONDS = 4.0
USER_AGENT = f"ConvergeBench/{__version__}"

logger = logging.getLogger(__name__)
SecurityEvent = Callable[[str, str], None]


class BrokenAnswer(Exception):
    """An answer that is valid HTTP, but must not be read."""


@dataclass(frozen=True)
class Reply:
    """A whole HTTP answer. Headers are looked up by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def media_type(self) -> str:
        """The stated type without parameters, such as "image/png"; "" if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()[:100]

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class HttpClient:
    """A client for URLs; the module's docstring lists its promises.

    `rules` guard untrusted addresses; None is for those that the operator configured. `name` is a
    prefix of the messages of failures. `on_security_event(kind, detail)` is called for every
    blocked attempt; kinds are "address" (the endpoint's own), "redirect" and "answer_url".
    """

    def __init__(
        self,
        rules: Rules | None,
        *,
        name: str = "",
        on_security_event: SecurityEvent | None = None,
        max_bytes: int = MAX_BODY_BYTES,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.rules = rules
        self.name = name
        self.max_bytes = max_bytes
        self._on_security_event = on_security_event
        # Few URLs, each parsed thousands of times.
        self._parse = lru_cache(maxsize=64)(rules.parse if rules else _parse_trusted)
        self._backend = Backend(rules)
        self._ssl_context = ssl_context
        self._lock = threading.Lock()
        self._pools: dict[str, httpcore2.ConnectionPool] = {}

    def parse(self, url: str) -> Url:
        """Parse a URL that may be called, by its text alone. Raises AddressRefused."""
        with self._reporting("address"):
            return self._parse(url)

    def check(self, url: str, *, timeout: float = CONNECT_SECONDS) -> Url:
        """Parse and resolve a URL that may be called now. Raises AddressRefused.

        For the moment of submission: the addresses are not stored. Every connection
        resolves and checks again.
        """
        with self._reporting("address"), self.call(timeout):
            parsed = self._parse(url)
            self._backend.resolve(parsed.host, parsed.port)
            return parsed

    @contextlib.contextmanager
    def call(self, seconds: float) -> Iterator[Budget]:
        """Give everything sent inside, also by an SDK, one deadline and one byte budget."""
        room = self.max_bytes + MAX_FRAMING_BYTES
        budget = Budget(seconds, time.monotonic() + seconds, room)
        token = current_budget.set(budget)
        try:
            yield budget
        finally:
            current_budget.reset(token)

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        json: Any = None,
        timeout: float | None = None,
        kind: str = "address",
    ) -> Reply:
        """Send one request, within `timeout` or the `call` around it.

        `kind` names the security event if the URL is blocked.
        """
        sent = {"Accept": "*/*", **(headers or {})}
        if json is not None:
            content = jsons.dumps(json).encode()
            sent["Content-Type"] = "application/json"
        with contextlib.nullcontext() if timeout is None else self.call(timeout):
            with self._reporting(kind):
                reply = self._exchange(method, self._parse(url), sent, content)
            if self.rules and 300 <= reply.status < 400:
                self._refuse_redirect(url, reply)
            return reply

    @cached_property
    def sdk_client(self) -> httpx2.Client:
        """An httpx2 client for an SDK that sends through this one, within a `call`."""
        return httpx2.Client(transport=_Transport(self), timeout=None, trust_env=False)

    def sleep(self, seconds: float) -> None:
        """Sleep, but no longer than the call may last, nor past `close`."""
        budget = current_budget.get()
        left = budget.deadline - time.monotonic()
        if self._backend.closed.wait(max(0.0, min(seconds, left))) or left <= seconds:
            raise self._failure(TimeoutError(), budget)

    def close(self) -> None:
        """End every call in flight; later calls fail at once."""
        self._backend.close()
        with self._lock:
            pools = list(self._pools.values())
        for pool in pools:
            pool.close()

    def _exchange(
        self, method: str, target: Url, headers: Mapping[str, str], content: bytes
    ) -> Reply:
        """Return the answer with its decoded body. Raises EditorError."""
        budget = current_budget.get()
        sent = {
            "Host": target.netloc,
            **headers,
            "Accept-Encoding": "identity",
        }
        sent.setdefault("User-Agent", USER_AGENT)
        if content or method != "GET":
            sent["Content-Length"] = str(len(content))
        try:
            request = httpcore2.Request(
                method,
                httpcore2.URL(
                    scheme=target.scheme, host=target.host, port=target.port, target=target.target
                ),
                headers=[(k.encode("ascii"), v.encode("latin-1")) for k, v in sent.items()],
                content=content,
            )
            response = self._pool(target).handle_request(request)
            try:
                return self._read(response, budget)
            finally:
                response.close()
        except (UnicodeEncodeError, httpcore2.LocalProtocolError):
            # Without its cause, which quotes a header that may contain a key.
            raise EditorError(
                "the request cannot be sent as HTTP", fault=Fault.CONFIGURATION, permanent=True
            ) from None
        except Exception as error:
            failure = self._failure(error, budget)
            if failure is error:
                raise
            raise failure from error

    def _read(self, response: httpcore2.Response, budget: Budget) -> Reply:
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in response.headers}
        is_error = response.status >= 300
        if response.status < 200:
            raise BrokenAnswer("the answer changes the protocol")
        if not is_error and int(headers.get("content-length", "0")) > self.max_bytes:
            raise TooLarge
        decode = _decoder(headers.get("content-encoding", ""))
        limit = min(self.max_bytes, MAX_ERROR_BYTES) if is_error else self.max_bytes
        pieces: list[bytes] = []
        size = 0
        for piece in response.iter_stream():
            decoded = decode(piece, limit + 1 - size) if decode else piece
            pieces.append(decoded)
            size += len(decoded)
            if size > limit:
                if is_error:  # the rest is not read
                    return Reply(response.status, headers, b"".join(pieces)[:limit])
                raise TooLarge
            if len(pieces) > MAX_PIECES:
                raise BrokenAnswer(f"the body comes in more than {MAX_PIECES:,} pieces")
            if size > LARGE_BYTES:
                LARGE.wait(budget.seconds_left())
        _refuse_surplus(response)
        return Reply(response.status, headers, b"".join(pieces))

    def _pool(self, target: Url) -> httpcore2.ConnectionPool:
        """Return the connections to the target, or to the proxy that leads to it."""
        proxy = "" if self.rules else _environment_proxy(target)
        with self._lock:
            if proxy not in self._pools:
                self._pools[proxy] = httpcore2.ConnectionPool(
                    ssl_context=self._ssl_context or trusted_authorities(),
                    proxy=_proxy(proxy) if proxy else None,
                    max_connections=None,
                    keepalive_expiry=KEEPALIVE_SECONDS,
                    network_backend=self._backend,
                )
            return self._pools[proxy]

    def _refuse_redirect(self, url: str, reply: Reply) -> None:
        """Raise: a redirect is never followed, and one to a private host is reported."""
        with self._reporting("redirect"):
            try:
                location = urljoin(url, reply.headers.get("location", ""))
            except ValueError:
                location = ""
            target = self._parse(location)
            self._backend.resolve(target.host, target.port)
        raise EditorError(
            f"the endpoint redirects ({reply.status}) to {target.origin}; redirects are not "
            "followed: give the final address",
            fault=Fault.CONFIGURATION,
            permanent=True,
        )

    @contextlib.contextmanager
    def _reporting(self, kind: str) -> Iterator[None]:
        """Report blocked addresses; malformed ones are typing errors."""
        try:
            yield
        except AddressRefused as refused:
            if refused.fault is Fault.BLOCKED and self._on_security_event:
                try:
                    self._on_security_event(kind, refused.detail)
                except Exception:
                    # The call stays blocked, and its caller must get the reason.
                    logger.exception("a security event was not recorded")
            raise

    def _failure(self, error: Exception, budget: Budget) -> Exception:
        """Translate a network error; return any other unchanged.

        The exception's text is left out: it may quote the peer.
        """
        prefix = f"{self.name}: " if self.name else ""

        def failed(message: str, fault: Fault, *, permanent: bool = False) -> EditorError:
            return EditorError(
                prefix + message, fault=fault, permanent=permanent, billed=budget.sent
            )

        if self._backend.closed.is_set():
            return failed("we cancelled the call", Fault.UNREACHABLE, permanent=True)
        match error:
            case TooLarge():
                limit = f"{self.max_bytes / 2**20:.3g} MB"
                return failed(
                    f"response too large: more than {limit}", Fault.BAD_ANSWER, permanent=True
                )
            case ssl.SSLCertVerificationError():
                message = f"the TLS certificate is not valid: {error.verify_message}"
                return failed(message, Fault.TLS, permanent=True)
            case TimeoutError() if budget.sent:
                return failed(f"no complete answer within {budget.timeout:.3g} s", Fault.TIMEOUT)
            case TimeoutError():
                return failed("no connection within the time limit", Fault.TIMEOUT)
            case OSError() | httpcore2.NetworkError() if budget.sent:
                return failed("the connection broke during the call", Fault.SERVER_ERROR)
            case ssl.SSLEOFError():
                message = "cannot connect: the connection was closed during the TLS handshake"
                return failed(message, Fault.UNREACHABLE)
            case ssl.SSLError():
                reason = (error.reason or "unknown reason").replace("_", " ").lower()
                return failed(f"no TLS connection can be made: {reason}", Fault.TLS, permanent=True)
            case OSError():
                reason = error.strerror or str(error)
                return failed(f"cannot connect: {reason}", Fault.UNREACHABLE)
            case BrokenAnswer():
                return failed(f"protocol error: {error}", Fault.SERVER_ERROR)
            case zlib.error():
                message = "protocol error: the compressed answer cannot be unpacked"
                return failed(message, Fault.SERVER_ERROR)
            case httpcore2.ProxyError():
                return failed("the proxy refuses the connection", Fault.UNREACHABLE)
            case httpcore2.ProtocolError():
                message = "protocol error: the answer is not complete, valid HTTP"
                return failed(message, Fault.SERVER_ERROR)
        return error


class _Transport(httpx2.BaseTransport):
    """A transport that sends the requests of an SDK through our client."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        reply = self._client._exchange(
            request.method,
            self._client.parse(str(request.url)),
            {k: v for k, v in request.headers.items() if k not in _OURS},
            request.read(),
        )
        headers = {k: v for k, v in reply.headers.items() if k not in _OURS}
        return httpx2.Response(reply.status, headers=headers, content=reply.body)


#: Headers of the transport, which the client itself reads and writes.
_OURS = frozenset(
    (
        "host",
        "connection",
        "accept-encoding",
        "content-encoding",
        "content-length",
        "transfer-encoding",
    )
)


def multipart(
    url: str, files: Mapping[str, tuple[str, bytes, str]], form: Mapping[str, str] | None = None
) -> tuple[str, bytes]:
    """Encode a form with files; return its content type and body."""
    request = httpx2.Request("POST", url, data=dict(form or {}), files=dict(files))
    return request.headers["Content-Type"], request.read()


def _parse_trusted(text: str) -> Url:
    """Parse a URL of the operator or of a trusted answer."""
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, TypeError):
        url = httpx2.URL("")
    if url.scheme not in ("https", "http") or not url.host:
        raise EditorError(
            "the address is not a usable http or https URL",
            fault=Fault.CONFIGURATION,
            permanent=True,
        )
    port = url.port or {"https": 443, "http": 80}[url.scheme]
    return Url(url.scheme, url.raw_host.decode("ascii"), port, url.raw_path.decode("ascii"))


def _environment_proxy(target: Url) -> str:
    """Return the proxy for this URL from HTTPS_PROXY and similar variables, or ""."""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(target.scheme) or proxies.get("all") or ""
    if not proxy or urllib.request.proxy_bypass(target.netloc):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _proxy(address: str) -> httpcore2.Proxy:
    parsed = httpx2.Proxy(address)
    return httpcore2.Proxy(str(parsed.url), auth=parsed.raw_auth)


def _refuse_surplus(response: httpcore2.Response) -> None:
    """Raise if bytes follow the end of the answer: they would begin the next one.

    httpcore2 keeps them silently, and only here its parser, h11, is accessible.
    """
    stream: Any = response.stream
    if stream._stream._connection._h11_state.trailing_data[0]:
        response.extensions["network_stream"].close()
        raise BrokenAnswer("the body is longer than its Content-Length")


def _decoder(encoding: str) -> Callable[[bytes, int], bytes] | None:
    """Return a decoder of the Content-Encoding that never exceeds its limit of bytes."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise EditorError(
            f"the answer is compressed ({name[:40]!r}) although identity was requested",
            fault=Fault.SERVER_ERROR,
            permanent=True,
        )
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress
