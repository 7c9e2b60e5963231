"""CPU time and throughput of calls to a submitted endpoint, against a local server.

python -m evaluation.benchmarks.endpoint_calls [calls] [threads]
"""

from __future__ import annotations

import base64
import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection

import numpy as np
from PIL import Image

from evaluation.editors.endpoint import Endpoint
from evaluation.http.addresses import Rules
from evaluation.http.guarded_client import GuardedClient
from evaluation.images import Picture
from evaluation.testing.hostile_server import HostileServer, as_json, response


def noisy_picture(side: int) -> Picture:
    """A gradient with noise: as hard to pack as a photograph."""
    ramp = np.linspace(0, 255, side)[None, :, None] * np.ones((side, 1, 3))
    noise = np.random.default_rng(1).normal(0, 6, (side, side, 3))
    return Picture.from_image(Image.fromarray(np.clip(ramp + noise, 0, 255).astype(np.uint8)))


def serve(pipe: Connection, png: bytes) -> None:
    with HostileServer() as server:
        server.answers("/small", response(200, b"ok"))
        server.answers("/hf", response(200, png, "image/png"))
        encoded = base64.b64encode(png).decode()
        server.answers("/v1/images/edits", as_json({"data": [{"b64_json": encoded}]}))
        pipe.send(server.url(""))
        pipe.recv()


def measure(label: str, call: Callable[[int], object], calls: int, threads: int) -> None:
    call(0)
    cpu, wall = time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(call, range(calls)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"{label:42} {1000 * cpu / calls:7.2f} ms CPU a call {calls / wall:8.0f} calls/s")


def main(calls: int = 400, threads: int = 16) -> None:
    picture = noisy_picture(1024)
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs, picture.data), daemon=True)
    server.start()
    url = ours.recv()
    print(f"{calls} calls in {threads} threads, picture of {len(picture.data) / 2**20:.1f} MB")
    client = GuardedClient(Rules(allow_local=True))
    measure(
        "GET, 2 bytes", lambda _: client.send("GET", f"{url}/small", timeout=30), calls, threads
    )
    measure(
        "POST a picture, get one, as raw bytes",
        lambda _: client.send("POST", f"{url}/hf", content=picture.data, timeout=30),
        calls,
        threads,
    )
    for contract, path in (("huggingface", "/hf"), ("openai-edits", "/v1")):
        editor = Endpoint(url=url + path, contract=contract, allow_local=True, client=client)
        edit = partial(editor.edit, picture, "Add a hat.")
        measure(f"edit, {contract}", edit, calls // 4, threads)
    measure(
        "of it: decoding the picture", lambda _: Picture.from_bytes(picture.data), calls // 4, 1
    )
    ours.send("stop")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
