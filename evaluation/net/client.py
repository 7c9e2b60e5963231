"""The HTTP client of submitted endpoints, hosted providers and judges.

Each editor has one client, which threads share. A call returns a `Reply` of any status or raises
EditorError, which states the fault and whether another attempt can help. The client guarantees:

- With `rules`, the host is looked up once per connection, all its addresses must be allowed, and
  only a checked address is dialled. A redirect is checked and reported, but never followed. The
  environment's proxies are not used.
- The timeout is wall time for the whole call, from the lookup to the last byte of the answer.
  An answer that drips byte by byte does not prolong it.
- The sizes of head and body are limited; the limit of a body counts its decoded bytes.
- netrc is not read and cookies are not stored.
- `close()` ends calls in flight at once.
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
from evaluation.net.large_answers import LARGE_ANSWERS, LARGE_BYTES

MAX_BODY_BYTES = 64 * 2**20
#: The limit of everything but the body: heads, chunk sizes and extensions, trailers.
MAX_FRAMING_BYTES = 2 * 2**20
#: Each piece of a body takes some microseconds, so a body sent byte by byte would take minutes.
MAX_PIECES = 100_000
#: Only the beginning of an error body is read, which is enough for its message.
MAX_ERROR_BYTES = 64 * 2**10
#: Common servers (uvicorn, Node) close idle connections after 5 s. We do so earlier, so that no
#: edit is sent into a connection that is being closed.
KEEPALIVE_SECONDS = 4.0
USER_AGENT = f"ConvergeBench/{__version__}"

logger = logging.getLogger(__name__)
SecurityEvent = Callable[[str, str], None]


class BrokenAnswer(Exception):
    """An answer that breaks the protocol or our limits; the message has the reason."""


@dataclass(frozen=True)
class Reply:
    """A complete HTTP answer. The names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def media_type(self) -> str:
        """The Content-Type without parameters, such as "image/png"; "" if absent."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()[:100]

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class HttpClient:
    """An HTTP client; the module's docstring lists its guarantees.

    `rules` guard untrusted addresses; None if the operator configured the addresses. `name` is put
    before each error message. `on_security_event(kind, detail)` is called for every blocked call;
    kinds are "address" (the endpoint itself), "redirect" and "answer_url" (a URL in an answer).
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
        # Cached, because the same few URLs are called thousands of times.
        self._parse = lru_cache(maxsize=64)(rules.parse if rules else _parse_trusted)
        self._backend = Backend(rules)
        self._ssl_context = ssl_context
        self._lock = threading.Lock()
        self._pools: dict[str, httpcore2.ConnectionPool] = {}

    def parse(self, url: str) -> Url:
        """Parse and check a URL, without a lookup. Raises AddressRefused."""
        with self._reporting("address"):
            return self._parse(url)

    def check(self, url: str, *, timeout: float = CONNECT_SECONDS) -> Url:
        """Parse and check a URL, and look up its host. Raises AddressRefused.

        The submission form uses this. Every later connection looks up and checks the addresses
        again.
        """
        with self._reporting("address"), self.call(timeout):
            parsed = self._parse(url)
            self._backend.resolve(parsed.host, parsed.port)
            return parsed

    @contextlib.contextmanager
    def call(self, seconds: float) -> Iterator[Budget]:
        """Give all requests in this context, also an SDK's, one deadline and one byte budget."""
        max_received = self.max_bytes + MAX_FRAMING_BYTES
        budget = Budget(seconds, time.monotonic() + seconds, max_received)
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
        """Send one request within `timeout`, or within the surrounding `call`.

        `kind` is the kind of the security event if the URL is blocked.
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
        """An httpx2 client for an SDK, which sends through this client within a `call`."""
        return httpx2.Client(transport=_Transport(self), timeout=None, trust_env=False)

    def sleep(self, seconds: float) -> None:
        """Sleep. Raises EditorError if the call's deadline or `close` comes first."""
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
        """Send a request; return the answer with its decoded body. Raises EditorError."""
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
            # The cause is dropped: it quotes a header that may contain a key.
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
            raise BrokenAnswer("the answer switches to a different protocol")
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
                if is_error:  # the remainder is not read
                    return Reply(response.status, headers, b"".join(pieces)[:limit])
                raise TooLarge
            if len(pieces) > MAX_PIECES:
                raise BrokenAnswer(f"the body has more than {MAX_PIECES:,} pieces")
            if size > LARGE_BYTES:
                LARGE_ANSWERS.wait(budget.seconds_left())
        _refuse_surplus(response)
        return Reply(response.status, headers, b"".join(pieces))

    def _pool(self, target: Url) -> httpcore2.ConnectionPool:
        """Return the connection pool: one for each proxy, and one for direct connections."""
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
        """Raise EditorError for a redirect; report it if it leads to a blocked address."""
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
        """Report blocked addresses as security events, but not URLs that are only malformed."""
        try:
            yield
        except AddressRefused as refused:
            if refused.fault is Fault.BLOCKED and self._on_security_event:
                try:
                    self._on_security_event(kind, refused.detail)
                except Exception:
                    # The caller must still get the reason why the call is blocked.
                    logger.exception("a security event was not recorded")
            raise

    def _failure(self, error: Exception, budget: Budget) -> Exception:
        """Translate a network error; return any other exception unchanged.

        The text of a protocol error is left out, because it may quote the server.
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
                message = "protocol error: the answer is incomplete or invalid HTTP"
                return failed(message, Fault.SERVER_ERROR)
        return error


class _Transport(httpx2.BaseTransport):
    """A transport that sends an SDK's requests through our client."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        reply = self._client._exchange(
            request.method,
            self._client.parse(str(request.url)),
            {k: v for k, v in request.headers.items() if k not in _OWN_HEADERS},
            request.read(),
        )
        headers = {k: v for k, v in reply.headers.items() if k not in _OWN_HEADERS}
        return httpx2.Response(reply.status, headers=headers, content=reply.body)


#: Headers of the transport: the client sets and reads them itself.
_OWN_HEADERS = frozenset(
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
    """Parse a URL that the operator configured or a trusted provider returned."""
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
    """Raise BrokenAnswer if bytes follow the answer: the next reply would begin with them.

    httpcore2 does not report such bytes; only its parser, h11, shows them.
    """
    stream: Any = response.stream
    if stream._stream._connection._h11_state.trailing_data[0]:
        response.extensions["network_stream"].close()
        raise BrokenAnswer("the body is longer than its Content-Length")


def _decoder(encoding: str) -> Callable[[bytes, int], bytes] | None:
    """Return a function (data, limit) that decodes at most `limit` bytes; None: not encoded."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise EditorError(
            f"the answer is compressed ({name[:40]!r}) although no compression was requested",
            fault=Fault.SERVER_ERROR,
            permanent=True,
        )
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress
