"""The guarded client over other HTTP libraries, to be measured beside ours.

Both dial only what GuardedNetwork checked, verify TLS by name, follow nothing, count
the bytes and end by the wall clock. What they make of broken answers is another matter;
see evaluation.net.http_connection.
"""

from __future__ import annotations

import math
import select
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from typing import Any

import httpcore2
import pycurl

from evaluation.errors import EditorError
from evaluation.net.addresses import Url
from evaluation.net.guarded_client import GuardedClient
from evaluation.net.guarded_sockets import GuardedNetwork, protocol_error, seconds_left
from evaluation.net.http_connection import KEEPALIVE_SECONDS, MAX_HEAD_BYTES
from evaluation.net.reply import Reply


class HttpcoreClient(GuardedClient):
    """Over httpcore2: its pool and its parser, h11, are written in Python."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._pool = httpcore2.ConnectionPool(
            ssl_context=self._ssl_context,
            max_connections=256,
            keepalive_expiry=KEEPALIVE_SECONDS,
            network_backend=_Backend(self._network),
        )

    def _exchange(
        self, method: str, target: Url, headers: Mapping[str, str], content: bytes, deadline: float
    ) -> Reply:
        request = httpcore2.Request(
            method,
            httpcore2.URL(
                scheme=target.scheme, host=target.host, port=target.port, target=target.target
            ),
            headers=[(k.encode("ascii"), v.encode("latin-1")) for k, v in headers.items()],
            content=content,
            # Our streams take these as points in time: a drip cannot start the clock again.
            extensions={"timeout": dict.fromkeys(("connect", "read", "write"), deadline)},
        )
        response = self._pool.handle_request(request)
        try:
            chunks, size = [], 0
            for chunk in response.iter_stream():
                size += len(chunk)
                if size > self.max_bytes:
                    raise protocol_error("the answer is too large")
                chunks.append(chunk)
        finally:
            response.close()
        answered = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in response.headers}
        return Reply(response.status, answered, b"".join(chunks))

    def close(self) -> None:
        super().close()
        self._pool.close()


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, network: GuardedNetwork) -> None:
        self._network = network

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *_: Any, **__: Any
    ) -> httpcore2.NetworkStream:
        deadline = timeout or 0.0
        url = Url("http", host, port, "/")
        return _Stream(self._network.connect(url, None, deadline), url, self._network)


class _Stream(httpcore2.NetworkStream):
    def __init__(self, sock: socket.socket, url: Url, network: GuardedNetwork) -> None:
        self._sock, self._url, self._network = sock, url, network

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._sock.settimeout(seconds_left(timeout or 0.0))
        return self._sock.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        view = memoryview(buffer)
        while view:
            self._sock.settimeout(seconds_left(timeout or 0.0))
            view = view[self._sock.send(view) :]

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        sock = self._network.with_tls(self._sock, self._url, ssl_context, timeout or 0.0)
        return _Stream(sock, self._url, self._network)

    def close(self) -> None:
        self._network.drop(self._sock)

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object" and isinstance(self._sock, ssl.SSLSocket):
            return self._sock
        if info == "is_readable":
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            return self._sock.fileno() < 0 or bool(poll.poll(0))
        return None


class CurlClient(GuardedClient):
    """Over libcurl: a handle with a connection of its own for each call in flight."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._handles: deque[_Handle] = deque()

    def _exchange(
        self, method: str, target: Url, headers: Mapping[str, str], content: bytes, deadline: float
    ) -> Reply:
        try:
            handle = self._handles.pop()
        except IndexError:
            handle = _Handle(self._network, self.max_bytes, self._ssl_context)
        reply = handle.exchange(method, target, headers, content, deadline)
        self._handles.append(handle)
        return reply


class _Handle:
    def __init__(
        self, network: GuardedNetwork, max_bytes: int, authorities: ssl.SSLContext
    ) -> None:
        self._network, self._max_bytes = network, max_bytes
        certificates = authorities.get_ca_certs(binary_form=True)
        self._curl = pycurl.Curl()
        for option, value in {
            pycurl.CAINFO_BLOB: "".join(map(ssl.DER_cert_to_PEM_cert, certificates)).encode(),
            pycurl.NOSIGNAL: 1,
            pycurl.PROXY: "",
            pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_1_1,
            pycurl.MAXCONNECTS: 1,
            pycurl.MAXAGE_CONN: int(KEEPALIVE_SECONDS),
            pycurl.BUFFERSIZE: 512 * 2**10,
            # curl opens no connection itself: it is given one to a checked address.
            pycurl.OPENSOCKETFUNCTION: self._open,
            pycurl.SOCKOPTFUNCTION: lambda *_: pycurl.SOCKOPT_ALREADY_CONNECTED,
            pycurl.WRITEFUNCTION: self._take,
            pycurl.HEADERFUNCTION: self._take_header,
        }.items():
            self._curl.setopt(option, value)

    def exchange(
        self, method: str, target: Url, headers: Mapping[str, str], content: bytes, deadline: float
    ) -> Reply:
        self._target, self._deadline = target, deadline
        self._failure: Exception | None = None
        self._chunks: list[bytes] = []
        self._headers: dict[str, str] = {}
        self._size = self._head_size = 0
        for option, value in {
            pycurl.URL: str(target),
            pycurl.RESOLVE: [f"{target.host}:{target.port}:127.0.0.1"],  # nor does it look up
            pycurl.POSTFIELDS: content,
            pycurl.CUSTOMREQUEST: method,
            pycurl.HTTPHEADER: [*map(": ".join, headers.items()), "Expect:"],
            pycurl.TIMEOUT_MS: math.ceil(1000 * seconds_left(deadline)),
        }.items():
            self._curl.setopt(option, value)
        try:
            self._curl.perform()
        except pycurl.error as error:
            if error.args[0] == pycurl.E_OPERATION_TIMEDOUT:
                raise TimeoutError from error
            raise self._failure or protocol_error(error.args[1]) from error
        status = self._curl.getinfo(pycurl.RESPONSE_CODE)
        return Reply(status, self._headers, b"".join(self._chunks))

    def _open(self, *_: Any) -> Any:
        try:
            return self._network.connect(self._target, None, self._deadline)
        except EditorError as error:
            self._failure = error
            return pycurl.SOCKET_BAD

    def _take(self, data: bytes) -> int:
        self._size += len(data)
        self._chunks.append(data)
        return len(data) if self._size <= self._max_bytes else -1

    def _take_header(self, line: bytes) -> int:
        self._head_size += len(line)
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            self._headers[name.lower()] = value.strip()
        return len(line) if self._head_size <= MAX_HEAD_BYTES else -1
