"""What calling a submitted endpoint costs: our client beside httpcore2 and libcurl.

python -m evaluation.benchmarks.endpoint_calls [rounds]

The clients take turns on one local server, in one process; of each the best round
counts, as whatever else the machine does can only make a round worse.
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

import numpy as np
from PIL import Image

from evaluation.benchmarks.http_clients import CurlClient, HttpcoreClient
from evaluation.editors.endpoint import Endpoint
from evaluation.images import Picture
from evaluation.net.addresses import Rules
from evaluation.net.guarded_client import GuardedClient
from evaluation.testing.hostile_server import HostileServer, response

LATENCY = 0.2
CLIENTS = {"ours": GuardedClient, "httpcore": HttpcoreClient, "libcurl": CurlClient}


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


def compare(
    label: str,
    make: Callable[[GuardedClient], Callable[[], object]],
    calls: int,
    in_flight: int,
    rounds: int,
) -> None:
    """One line: each client's processor time a call and calls a second."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in CLIENTS}
    for _ in range(rounds):
        for name, client_class in CLIENTS.items():
            client = client_class(Rules(allow_local=True))
            found[name].append(measure(make(client), calls, in_flight))
            client.close()
    cells = (
        f"{min(cpu for cpu, _ in results):8.2f} ms {max(rate for _, rate in results):6.0f}/s"
        for results in found.values()
    )
    print(f"{label:44}", *cells, flush=True)


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

    def sending(place: int, data: bytes) -> Callable[[GuardedClient], Callable[[], object]]:
        return lambda client: partial(
            client.send, "POST", f"{url}/{place}", content=data, timeout=60
        )

    def editing(path: str, picture: Picture) -> Callable[[GuardedClient], Callable[[], object]]:
        def make(client: GuardedClient) -> Callable[[], object]:
            editor = Endpoint(
                url=url + path, contract="huggingface", allow_local=True, client=client
            )
            return partial(editor.edit, picture, "Add a hat.")

        return make

    print(f"{'processor time a call, and calls a second':44}", *(f"{n:>20}" for n in CLIENTS))
    for place, (name, data) in enumerate(pictures.items()):
        calls, mebibytes = (800 if len(data) < 10**5 else 100), len(data) / 2**20
        label = f"{name} of {mebibytes:.2g} MB"
        compare(f"{label}: there and back", sending(place, data), calls, 16, rounds)
    for place, (name, data) in enumerate(pictures.items()):
        picture = Picture.from_bytes(pictures["tiny PNG" if place == 0 else "1024 px PNG"])
        calls = 800 if len(data) < 10**5 else 64
        compare(f"{name}: an edit, decoded", editing(f"/{place}", picture), calls, 16, rounds)
        slow = editing(f"/slow/{place}", picture)
        calls = 1280 if len(data) < 10**5 else 192
        compare(f"{name}: edits of 200 ms, 64 in flight", slow, calls, 64, rounds)
    ours.send("stop")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
