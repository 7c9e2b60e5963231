"""Real worker processes for tests: started, killed, and restarted as by a supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

MANAGE = settings.BASE_DIR / "manage.py"


def environment(**extra: Any) -> dict[str, str]:
    """Return the environment of a process that uses the database and files of this test."""
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "leaderboard.testing.worker_settings",
        "DATABASE_URL": database_url(),
        "DATA_DIR": str(settings.DATA_DIR),
        "ALLOW_LOCAL_ENDPOINTS": "1",
        "METRICS": "psnr,ssim",
        # This witness needs no network. Importing torch would take most of a score job's time.
        "WITNESSES": "geometry",
        "SWEEP_SECONDS": "1",
        "LEASE_SECONDS": "3",
        "OMP_NUM_THREADS": "1",
        **{name: str(value) for name, value in extra.items()},
    }


def database_url() -> str:
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    server, _, options = os.environ["TEST_DATABASE_URL"].partition("?")
    return f"{server.rpartition('/')[0]}/{name}{'?' if options else ''}{options}"


def children(pid: int) -> list[int]:
    """Return the living child processes of a process."""
    try:
        pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(child) for child in pids]


class WorkerProcesses:
    """Workers by name. `with WorkerProcesses(tmp_path) as workers: workers.start("edits")`"""

    def __init__(self, folder: Path, **extra: Any) -> None:
        self.folder = folder
        self.environment = environment(**extra)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.queues: dict[str, str] = {}

    def __enter__(self) -> WorkerProcesses:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self.processes.values():
            process.kill()  # its work horse ends with it
        for process in self.processes.values():
            process.wait()

    def start(self, queue: str, name: str = "") -> subprocess.Popen[bytes]:
        name = name or queue
        self.queues[name] = queue
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, str(MANAGE), "work", queue],
                env=self.environment,
                stdout=log,
                stderr=log,
                cwd=settings.BASE_DIR,
            )
        return self.processes[name]

    def restart_dead(self) -> None:
        """Start dead workers again."""
        for name, process in list(self.processes.items()):
            if process.poll() is not None:
                self.start(self.queues[name], name)

    def horse(self, name: str) -> int | None:
        """Return the work horse: the process that runs this worker's current job."""
        return next(iter(children(self.processes[name].pid)), None)

    def kill(self, name: str, *, horse: bool) -> bool:
        """Kill (-9) the worker or its work horse; return False if there is no such process."""
        if name not in self.processes:
            return False
        pid = self.horse(name) if horse else self.processes[name].pid
        if pid is None or (not horse and self.processes[name].poll() is not None):
            return False
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        if not horse:
            self.processes[name].wait()
        return True

    def logs(self, last: int = 0) -> str:
        """Return the logs of all workers: everything (0), or the last lines of each."""
        parts = []
        for path in sorted(self.folder.glob("*.log")):
            lines = path.read_text(errors="replace").splitlines()[-last:]
            parts.append("\n".join([f"== {path.name}", *lines]))
        return "\n".join(parts)

    def wait(self, condition: Callable[[], Any], seconds: float = 120) -> None:
        """Wait until the condition holds; restart workers that die meanwhile."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"no success within {seconds:g} s\n{self.logs(last=40)}")
            self.restart_dead()
            time.sleep(0.05)
