"""How fast the board answers: python -m leaderboard.benchmarks.pages

On one gunicorn, 16 clients ask for the board of 100 invented models and for a
static file of the same bytes, in turns, and the ratio of their times is printed;
then how the board's time grows from 10 to 100 models, warm and just after a
change. Exits with 1 when the board takes more than 3 times as long as the file.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENTS, ROUNDS, SECONDS = 16, 5, 2.0
LIMIT = 3.0
FILE = "benchmark.html"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        times = {}
        for models in (10, 100):
            data = Path(folder) / str(models)
            invent(data, models)
            with server(data) as address:
                page = fetch(f"{address}/")
                # Found when the server starts: so it is written first, and started again.
                (data / "static" / FILE).write_bytes(page)
            with server(data) as address:
                times[models] = measure(address, data)
                now = times[models]
                print(
                    f"{models:>3} models: {len(page) / 1024:.0f} KB; board {show(now.board)}, "
                    f"static file {show(now.file)}, ratio {now.ratio:.2f}; "
                    f"first view after a change {show(now.cold)}"
                )
        warm, cold = (
            statistics.median(getattr(times[100], name))
            / statistics.median(getattr(times[10], name))
            for name in ("board", "cold")
        )
        print(f"growth from 10 to 100 models: {warm:.2f} x warm, {cold:.2f} x after a change")
        found = times[100].ratio
        print(f"board against static file, {CLIENTS} clients: {found:.2f} (limit {LIMIT:g})")
    return 0 if found <= LIMIT else 1


def invent(data: Path, models: int) -> None:
    """A database of invented standings, and the static files."""
    size = ["--models", str(models), "--cases", "300", "--trips", "20", "--no-trips"]
    for command in (
        ["migrate"],
        ["generate_board", *size],
        ["collectstatic", "--no-input"],
    ):
        subprocess.run(
            [sys.executable, "manage.py", *command, "-v0"],
            cwd=ROOT,
            env=environment(data),
            check=True,
        )


def environment(data: Path) -> dict[str, str]:
    return {**os.environ, "DATA_DIR": str(data), "LOG_LEVEL": "ERROR", "DEBUG": "0"}


@contextmanager
def server(data: Path, more: Mapping[str, str] | None = None) -> Iterator[str]:
    """The site as `manage.py up` serves it; `more` settings by their variables."""
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
    """Seconds: mean per request in each round, and the first view after a change."""

    board: list[float] = field(default_factory=list)
    file: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(b / f for b, f in zip(self.board, self.file, strict=True))


def measure(address: str, data: Path) -> Times:
    """The board and the file in turns, so that both see the same machine."""
    found = Times()
    for _ in range(5):
        touch(data)
        start = time.perf_counter()
        fetch(f"{address}/")
        found.cold.append(time.perf_counter() - start)
    for path in ("/", f"/static/{FILE}") * 2:  # both workers know both pages
        asyncio.run(ask(address, path, 0.5))
    for _ in range(ROUNDS):
        found.board.append(asyncio.run(ask(address, "/", SECONDS)))
        found.file.append(asyncio.run(ask(address, f"/static/{FILE}", SECONDS)))
    return found


def touch(data: Path) -> None:
    """Change something the board shows, so that nothing kept is true any more."""
    code = "from leaderboard.models import Suite; [s.save() for s in Suite.objects.all()]"
    subprocess.run(
        [sys.executable, "manage.py", "shell", "-v0", "-c", code],
        cwd=ROOT,
        env=environment(data),
        check=True,
    )


async def ask(address: str, path: str, seconds: float) -> float:
    """Mean seconds per answer with all clients asking one request after the other."""
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
