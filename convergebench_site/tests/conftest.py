"""A real web server for tests that attack it."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx2
import pytest
from django.conf import settings

from leaderboard.testing.worker_processes import children


class WebServer:
    """gunicorn as `make up` starts it: one process with four threads, on a free port."""

    def __init__(self, folder: Path, application: str = "convergebench_site.wsgi") -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.environment = os.environ | {
            "DEBUG": "1",  # static files need not be collected
            "DATA_DIR": str(folder),
            "DJANGO_SETTINGS_MODULE": "convergebench_site.settings",
        }
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", application),
                *("--config", "python:convergebench_site.web_server"),
                *("--bind", f"127.0.0.1:{self.port}", "--workers", "1"),
            ],
            env=self.environment,
            cwd=settings.BASE_DIR,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def migrate(self) -> None:
        command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(command, env=self.environment, cwd=settings.BASE_DIR, check=True)

    def get(self, path: str, timeout: float = 5) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request("GET", path)
        return connection.getresponse().status

    def post(self, path: str, files: Mapping[str, bytes]) -> int:
        """Send a form with these files as a browser would, and return the status."""
        url = f"http://127.0.0.1:{self.port}{path}"
        with httpx2.Client(timeout=60) as client:
            client.get(url)
            token = client.cookies["csrftoken"]
            sent = [("restored", (name, data)) for name, data in files.items()]
            return client.post(url, data={"csrfmiddlewaretoken": token}, files=sent).status_code

    def peak(self) -> int:
        """The peak memory of the web process so far, in MB."""
        (pid,) = children(self.process.pid)
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


@contextlib.contextmanager
def serving(server: WebServer) -> Iterator[WebServer]:
    """Wait until the server answers, and stop it after the block."""
    try:
        for _ in range(300):
            try:
                server.get("/livez")
                break
            except OSError:
                time.sleep(0.1)
        yield server
    finally:
        server.process.kill()
        server.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    with serving(WebServer(tmp_path)) as server:
        yield server
