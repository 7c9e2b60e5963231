"""A local editing endpoint that counts its calls, for tests and measurements.

It speaks the Hugging Face contract, takes a fixed time for an edit, answers
the same input with the same picture, and misbehaves as it is told.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from PIL import Image, ImageOps

#: What the server answers instead of a picture: status, headers, body. None: a picture.
Reply = tuple[int, Mapping[str, str], bytes]


@dataclass(frozen=True)
class Call:
    """One call: which edit it asked for, and with which key the caller marked it."""

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
    #: Decides before each edit whether something else is answered.
    instead: Callable[[Call], Reply | None] = lambda call: None
    in_flight: int = 0
    most_in_flight: int = 0
    url: str = ""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        )
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/edit"
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _hang_up(self) -> None:
        self._server.close()
        callers = asyncio.all_tasks() - {asyncio.current_task()}
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                headers = _headers(head)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                status, extra, answer = await self._answer(headers, body)
                lines = [f"HTTP/1.1 {status} OK", f"Content-Length: {len(answer)}"]
                lines += [f"{name}: {value}" for name, value in extra.items()]
                writer.write("\r\n".join([*lines, "", ""]).encode() + answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the caller hung up, or was killed
        finally:
            writer.close()

    async def _answer(self, headers: Mapping[str, str], body: bytes) -> Reply:
        data = json.loads(body)
        picture, parameters = base64.b64decode(data["inputs"]), data["parameters"]
        seed = parameters.get("seed", 0)
        name = hashlib.sha256(picture + f"{parameters['prompt']}/{seed}".encode()).hexdigest()
        call = Call(name, parameters["prompt"], headers.get("idempotency-key", ""), seed)
        self.calls.append(call)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if reply := self.instead(call):
                return reply
            await asyncio.sleep(self.latency)
            answer = (self.edit or noisy_turn)(picture, parameters["prompt"], seed)
            return 200, {"Content-Type": "image/png"}, answer
        finally:
            self.in_flight -= 1


def noisy_turn(picture: bytes, prompt: str, seed: int) -> bytes:
    """The picture mirrored or upside down, with a little noise that the seed decides."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    turned = ImageOps.mirror(image) if "irror" in prompt else image.rotate(180)
    noise = np.random.default_rng(seed).integers(-6, 7, (image.height, image.width, 3))
    noisy = np.clip(np.asarray(turned, dtype=np.int16) + noise, 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noisy).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs: list[Any] = [line.split(":", 1) for line in lines if ":" in line]
    return {name.strip().lower(): value.strip() for name, value in pairs}
