"""A local server that misbehaves, with one behaviour per path.

It uses raw sockets, so it can break HTTP in any way. `does("/path", function)` registers a function
that gets the connection and the request and sends the answer.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from evaluation.errors import EditorError
from evaluation.net.client import HttpClient

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n"


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


Behaviour = Callable[[socket.socket, Received], None]


def response(
    status: int = 200, body: bytes = b"", type_: str = "", length: int | None = None, **headers: str
) -> bytes:
    """Return an HTTP/1.1 response. `length` overrides the Content-Length; -1 omits it."""
    lines = [f"HTTP/1.1 {status} Whatever"]
    if type_:
        lines.append(f"Content-Type: {type_}")
    if length != -1:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def as_json(payload: Any, status: int = 200, **headers: str) -> bytes:
    return response(status, json.dumps(payload).encode(), "application/json", None, **headers)


class HostileServer:
    """A server on 127.0.0.1 with one thread per connection, which may serve several requests."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.received: list[Received] = []
        self.connections = 0
        self.stop = threading.Event()
        self._behaviours: dict[str, Behaviour] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._listener.close()

    def url(self, path: str = "/") -> str:
        scheme, host = ("https", "localhost") if self.tls else ("http", "127.0.0.1")
        return f"{scheme}://{host}:{self.port}{path}"

    def answers(self, path: str, *replies: bytes) -> str:
        """Answer the path with these replies in turn, then repeat the last; return the path's URL."""
        waiting = list(replies)

        def answer(connection: socket.socket, _: Received) -> None:
            connection.sendall(waiting.pop(0) if len(waiting) > 1 else waiting[0])

        return self.does(path, answer)

    def does(self, path: str, behaviour: Behaviour) -> str:
        self._behaviours[path] = behaviour
        return self.url(path)

    def drips(self, path: str, start: bytes, piece: bytes, pause: float) -> str:
        """Answer the path with `start`, then with `piece` for ever; return the path's URL."""

        def drip(connection: socket.socket, _: Received) -> None:
            connection.sendall(start)
            while not self.stop.wait(pause):
                connection.sendall(piece)

        return self.does(path, drip)

    def _accept(self) -> None:
        while not self.stop.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), contextlib.ExitStack() as stack:
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            stack.enter_context(connection)
            reader = stack.enter_context(connection.makefile("rb"))
            while request := _read_request(reader):
                self.received.append(request)
                path = request.path.partition("?")[0]
                behaviour = self._behaviours.get(path)
                if behaviour is None:
                    connection.sendall(response(404))
                    continue
                sent = _Recorder(connection)
                behaviour(sent, request)  # type: ignore[arg-type]
                if sent.closes:
                    return


class _Recorder:
    """A connection that must be closed after a response without a true Content-Length."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.closes = False

    def sendall(self, data: bytes) -> None:
        head, _, body = data.partition(b"\r\n\r\n")
        if data.startswith(b"HTTP/1.1"):
            stated = [
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            ]
            self.closes = not stated or stated[0] > len(body)
        self._connection.sendall(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def _read_request(reader: Any) -> Received | None:
    line = reader.readline().decode("latin-1").split()
    if len(line) != 3:
        return None
    headers: dict[str, str] = {}
    while (header := reader.readline().decode("latin-1").strip()) != "":
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", 0)))
    return Received(line[0], line[1], headers, body)


def failure(client: HttpClient, url: str, *, timeout: float = 10.0, **options: Any) -> EditorError:
    """Call the URL and return the error."""
    try:
        client.send("POST", url, content=b"x", timeout=timeout, **options)
    except EditorError as error:
        return error
    raise AssertionError(f"{url} was answered")
