"""Cost of calling a submitted endpoint: the guarded client beside bare httpcore2.

python -m evaluation.benchmarks.endpoint_calls [rounds]

Both take turns on one local server, in one process; of each the best round counts, as
whatever else the machine does can only make a round worse.
"""

from __future__ import annotations

import io
import multiprocessing
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import httpcore2
import numpy as np
from PIL import Image

from evaluation.editors.endpoint import Endpoint
from evaluation.images import Picture
from evaluation.net.addresses import Rules
from evaluation.net.client import HttpClient
from evaluation.testing.hostile_server import HostileServer, response

LATENCY = 0.2
IN_FLIGHT = 64


def noisy_image(side: int) -> Image.Image:
    """A gradient with noise: as hard to pack as a photograph."""
    ramp = np.linspace(0, 255, side)[None, :, None] * np.ones((side, 1, 3))
    noise = np.random.default_rng(1).normal(0, 2, (side, side, 3))
    return Image.fromarray(np.clip(ramp + noise, 0, 255).astype(np.uint8))


def encoded(image: Image.Image, format_: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format_, **options)
    return buffer.getvalue()


def serve(pipe: Connection, answers: dict[str, bytes]) -> None:
    with HostileServer() as server:
        server.received = deque(maxlen=1)  # type: ignore[assignment]
        for path, answer in answers.items():
            server.answers(path, answer)

            def slowly(connection: socket.socket, _: object, answer: bytes = answer) -> None:
                time.sleep(LATENCY)
                connection.sendall(answer)

            server.does(f"/slow{path}", slowly)
        pipe.send(server.url(""))
        pipe.recv()


def measure(call: Callable[[], object], calls: int, in_flight: int) -> tuple[float, float]:
    """Milliseconds of processor a call, and calls a second."""
    with ThreadPoolExecutor(in_flight) as pool:
        any(pool.map(lambda _: call() is None, range(in_flight)))  # connects
        cpu, wall = time.process_time(), time.perf_counter()
        any(pool.map(lambda _: call() is None, range(calls)))  # keeps no picture
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return 1000 * cpu / calls, calls / wall


def best(
    call: Callable[[], object], calls: int, in_flight: int, rounds: int
) -> tuple[float, float]:
    """Return the least processor time and the highest rate of several rounds."""
    results = [measure(call, calls, in_flight) for _ in range(rounds)]
    return min(cpu for cpu, _ in results), max(rate for _, rate in results)


def main(rounds: int = 3) -> None:
    large, small = noisy_image(1024), noisy_image(64)
    pictures = {
        "tiny PNG": encoded(small, "PNG"),
        "1024 px PNG": encoded(large, "PNG"),
        "1024 px JPEG": encoded(large, "JPEG", quality=98, subsampling=0),
    }
    answers = {f"/{place}": response(200, data) for place, data in enumerate(pictures.values())}
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs, answers), daemon=True)
    server.start()
    url = ours.recv()

    client, bare = HttpClient(Rules(allow_local=True)), httpcore2.ConnectionPool(max_connections=64)
    for place, (name, data) in enumerate(pictures.items()):
        calls = 800 if len(data) < 10**5 else 100
        address = f"{url}/{place}"
        guarded, plain = (
            best(call, calls, 16, rounds)
            for call in (
                partial(client.send, "POST", address, content=data, timeout=60),
                partial(bare.request, "POST", address, content=data),
            )
        )
        print(
            f"{name} of {len(data) / 2**20:.2g} MB, there and back: {guarded[0]:.2f} ms of processor, "
            f"{guarded[0] / plain[0]:.2f}x bare httpcore2; {guarded[1]:.0f} calls a second"
        )
    # Larger pictures are decoded for longer than they are waited for.
    editor = Endpoint(url=f"{url}/slow/0", contract="huggingface", allow_local=True, client=client)
    edit = partial(editor.edit, Picture.from_bytes(pictures["tiny PNG"]), "Add a hat.")
    cpu, rate = best(edit, 1280, IN_FLIGHT, rounds)
    print(
        f"edits of 200 ms, {IN_FLIGHT} in flight: {IN_FLIGHT / LATENCY / rate:.2f}x the ideal, "
        f"{cpu:.2f} ms of processor an edit"
    )
    client.close()
    ours.send("stop")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
