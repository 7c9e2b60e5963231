"""Measure how fast the board answers: python -m leaderboard.benchmarks.pages

One database has two boards, of 10 and of 100 invented models, with equally many reference editors.
This process views the boards in turns and divides their processor times: for the first view after
a change, and for a cached view. Then 16 clients request the larger board and a static file of the
same bytes, in turns, from one gunicorn. Exits with 1 if a ratio exceeds its limit.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENTS, ROUNDS, SECONDS = 16, 5, 2.0
#: Views of each board whose processor time is compared; the first few warm up.
VIEWS, WARM_UP = 40, 5
#: Limit of the board's time divided by the static file's time.
LIMIT = 3.0
#: Limits of the time for 100 models divided by the time for 10, by kind of view. After a change,
#: every model is read once.
GROWTH = {"first view after a change": 2.0, "cached view": 1.2}
FILE = "benchmark.html"
#: Models by suite; "/" opens the larger board, because its suite comes first.
BOARDS = {"hundred": 100, "ten": 10}
REFERENCE_EDITORS = 4


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        invent(data)
        grown = growth()
        for name, (ratio, small, large) in grown.items():
            print(
                f"{name}: 10 models {1000 * small:.1f} ms of processor, 100 models "
                f"{1000 * large:.1f} ms, growth {ratio:.2f} (limit {GROWTH[name]:g})"
            )
        with server(data) as address:
            # A server lists its static files when it starts, so another one serves this file.
            page = fetch(f"{address}/")
            (data / "static" / FILE).write_bytes(page)
        with server(data) as address:
            times = measure(address)
        print(
            f"board of 100 models, {len(page) / 1024:.0f} KB, {CLIENTS} clients: {show(times.board)}, "
            f"static file {show(times.file)}, ratio {times.ratio:.2f} (limit {LIMIT:g})"
        )
    held = times.ratio <= LIMIT and all(
        ratio <= GROWTH[name] for name, (ratio, _, _) in grown.items()
    )
    return 0 if held else 1


def invent(data: Path) -> None:
    """Make a database with invented standings, and collect the static files."""
    os.environ |= environment(data) | {"DJANGO_SETTINGS_MODULE": "convergebench_site.settings"}
    import django

    django.setup()
    from django.core.management import call_command

    from leaderboard.testing.large_board import invent_board

    call_command("migrate", verbosity=0)
    for slug, models in BOARDS.items():
        invent_board(slug, models=models, references=REFERENCE_EDITORS, with_trips=False)
    call_command("collectstatic", interactive=False, verbosity=0)


def growth() -> dict[str, tuple[float, float, float]]:
    """Return the ratio of the processor times and both medians, for each kind of view.

    The ratio is the median of the ratios of consecutive views: a busy machine slows both views.
    """
    from django.core.cache import cache
    from django.test import Client

    client = Client(headers={"host": "localhost"})

    def view(slug: str, change: Callable[[], object]) -> float:
        change()
        start = time.process_time()
        answer = client.get(f"/?suite={slug}-v1")
        taken = time.process_time() - start
        if answer.status_code != 200:
            raise RuntimeError(f"the board answered {answer.status_code}")
        return taken

    found = {}
    changes: dict[str, Callable[[], object]] = {
        "first view after a change": cache.clear,
        "cached view": int,
    }
    for name, change in changes.items():
        pairs = [(view("ten", change), view("hundred", change)) for _ in range(VIEWS + WARM_UP)]
        small, large = zip(*pairs[WARM_UP:], strict=True)
        ratio = statistics.median(b / a for a, b in pairs[WARM_UP:])
        found[name] = (ratio, statistics.median(small), statistics.median(large))
    return found


def environment(data: Path) -> dict[str, str]:
    return {**os.environ, "DATA_DIR": str(data), "LOG_LEVEL": "ERROR", "DEBUG": "0"}


@contextmanager
def server(data: Path, more: Mapping[str, str] | None = None) -> Iterator[str]:
    """Serve the site like `manage.py up`; `more` has additional environment variables."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "gunicorn", "convergebench_site.wsgi", "--bind"),
            *(f"127.0.0.1:{port}", "--workers", "2", "--worker-class", "gthread"),
            *("--threads", "4", "--preload", "--log-level", "error", "--no-control-socket"),
        ],
        cwd=ROOT,
        env=environment(data) | dict(more or {}),
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(process, address)
        yield address
    finally:
        process.terminate()
        process.wait()


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        try:
            fetch(f"{address}/livez")
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server did not start")


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address) as response:
        body: bytes = response.read()
        return body


@dataclass
class Times:
    """The mean seconds per request in each round, for the board and for the file."""

    board: list[float] = field(default_factory=list)
    file: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(b / f for b, f in zip(self.board, self.file, strict=True))


def measure(address: str) -> Times:
    """Request the board and the file in turns, so that the machine is equally busy for both."""
    found = Times()
    for path in ("/", f"/static/{FILE}") * 2:  # both processes cache both pages
        asyncio.run(ask(address, path, 0.5))
    for _ in range(ROUNDS):
        found.board.append(asyncio.run(ask(address, "/", SECONDS)))
        found.file.append(asyncio.run(ask(address, f"/static/{FILE}", SECONDS)))
    return found


async def ask(address: str, path: str, seconds: float) -> float:
    """Return the mean seconds per answer, while each client sends one request at a time."""
    host, port = address.removeprefix("http://").split(":")
    request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept-Encoding: identity\r\n\r\n"
    end = time.perf_counter() + seconds

    async def client() -> list[float]:
        taken = []
        reader, writer = await asyncio.open_connection(host, int(port))
        while time.perf_counter() < end:
            start = time.perf_counter()
            writer.write(request.encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            if " 200 " not in head.splitlines()[0]:
                raise RuntimeError(head)
            length = int(head.partition("content-length:")[2].split()[0])
            await reader.readexactly(length)
            taken.append(time.perf_counter() - start)
            if "connection: close" in head:
                writer.close()
                reader, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        return taken

    answers = await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return statistics.fmean(taken for one in answers for taken in one)


def show(seconds: list[float]) -> str:
    return f"{1000 * statistics.median(seconds):.1f} ms"


if __name__ == "__main__":
    sys.exit(main())
