"""A local editing endpoint that records its calls, for tests and benchmarks.

It uses the API format (contract) of Hugging Face, takes a fixed time for an edit,
answers the same input with the same image, and misbehaves if `instead` says so.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, cast

import numpy as np
from PIL import Image, ImageOps

HEAD_ENDS = b"\r\n\r\n"
#: An answer instead of an image: status, headers, body.
Reply = tuple[int, Mapping[str, str], bytes]


@dataclass(frozen=True)
class Call:
    """One call; `edit` identifies image, prompt and seed, `key` is the idempotency key."""

    edit: str
    prompt: str
    key: str
    seed: int


@dataclass
class EditingServer:
    """`with EditingServer(latency=0.2) as server: server.url`"""

    latency: float = 0.05
    edit: Callable[[bytes, str, int], bytes] | None = None
    calls: list[Call] = field(default_factory=list)
    #: Called before each edit; may return another answer.
    instead: Callable[[Call], Reply | None] = lambda call: None
    in_flight: int = 0
    most_in_flight: int = 0
    url: str = ""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._callers: set[_Caller] = set()
        made = self._loop.create_server(lambda: _Caller(self), "127.0.0.1", 0, backlog=512)
        self._server = self._loop.run_until_complete(made)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/edit"
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._hang_up)
        self._thread.join()
        self._loop.close()

    def _hang_up(self) -> None:
        self._server.close()
        for caller in list(self._callers):
            caller.hang_up()
        self._loop.call_soon(self._loop.stop)  # after the callbacks of hanging up

    def _answer(self, caller: _Caller, headers: Mapping[str, str], body: bytes) -> None:
        """Answer a call, at once or after the latency of an edit."""
        data = json.loads(body)
        image, parameters = base64.b64decode(data["inputs"]), data["parameters"]
        seed = parameters.get("seed", 0)
        name = hashlib.sha256(image + f"{parameters['prompt']}/{seed}".encode()).hexdigest()
        call = Call(name, parameters["prompt"], headers.get("idempotency-key", ""), seed)
        self.calls.append(call)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)

        def answer() -> None:
            self.in_flight -= 1
            with caller.hung_up_on_error():
                edited = (self.edit or noisy_turn)(image, parameters["prompt"], seed)
                caller.reply(200, {"Content-Type": "image/png"}, edited)

        reply = None
        with caller.hung_up_on_error():
            reply = self.instead(call)
            if reply is None:
                self._loop.call_later(self.latency, answer)
                return
        self.in_flight -= 1
        if reply is not None:
            caller.reply(*reply)


class _Caller(asyncio.Protocol):
    """One connection. A protocol, because asyncio's streams are several times slower."""

    transport: asyncio.Transport

    def __init__(self, server: EditingServer) -> None:
        self.server, self.received = server, bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.server._callers.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.server._callers.discard(self)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if (end := self.received.find(HEAD_ENDS)) < 0:
            return
        headers = _headers(bytes(self.received[:end]))
        begin = end + len(HEAD_ENDS)
        length = int(headers.get("content-length", 0))
        if len(self.received) < begin + length:
            return
        body = bytes(self.received[begin : begin + length])
        del self.received[: begin + length]
        self.server._answer(self, headers, body)

    def reply(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        lines = [f"HTTP/1.1 {status} OK", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if not self.transport.is_closing():  # the caller may have hung up
            self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)

    def hang_up(self) -> None:
        self.transport.abort()

    @contextmanager
    def hung_up_on_error(self) -> Iterator[None]:
        """Hang up if the server fails, so that the caller does not wait."""
        try:
            yield
        except Exception:
            traceback.print_exc()
            self.hang_up()


def noisy_turn(image: bytes, prompt: str, seed: int) -> bytes:
    """Mirror the image or turn it upside down, and add a little noise from the seed."""
    decoded = Image.open(io.BytesIO(image)).convert("RGB")
    turned = ImageOps.mirror(decoded) if "irror" in prompt else decoded.rotate(180)
    noise = np.random.default_rng(seed).integers(-6, 7, (decoded.height, decoded.width, 3))
    noisy = np.clip(np.asarray(turned, dtype=np.int16) + noise, 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noisy).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs: list[Any] = [line.split(":", 1) for line in lines if ":" in line]
    return {name.strip().lower(): value.strip() for name, value in pairs}
