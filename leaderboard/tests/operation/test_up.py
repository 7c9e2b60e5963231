"""`manage.py up` reports in one line why it cannot start, and leaves no process behind."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from django.conf import settings
from django.db.utils import OperationalError

from leaderboard.management.commands import up
from leaderboard.testing.cluster.parts import free_port

UP = (sys.executable, "manage.py", "up", "--no-play")


def start(folder: Path, *wrapper: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*wrapper, *UP],
        cwd=settings.BASE_DIR,
        env=os.environ
        | {"DATA_DIR": str(folder), "PORT": str(free_port()), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Tests that run in the background ignore Ctrl-C, and their children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_a_damaged_database_is_reported_in_one_line(tmp_path):
    database = tmp_path / "site.sqlite3"
    database.write_bytes(os.urandom(2**16))
    _, error = (process := start(tmp_path)).communicate(timeout=60)
    assert process.returncode == 1
    assert error.startswith(f"CommandError: {database} is damaged (file is not a database).")
    assert len(error.splitlines()) == 1


def test_ctrl_c_during_the_migration_is_no_error(tmp_path):
    process = start(tmp_path)
    assert process.stdout
    assert process.stdout.readline() == "convergebench: database ...\n"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "stopped\n")


def test_a_full_disk_is_reported_in_one_line(tmp_path):
    small = f'mount -t tmpfs -o size=300k none {tmp_path} && exec "$0" "$@"'
    alone = ("unshare", "--map-root-user", "--mount", "sh", "-c", small)
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("no disk of a test's own can be mounted here")
    _, error = (process := start(tmp_path, *alone)).communicate(timeout=60)
    assert process.returncode == 1
    assert error == f"CommandError: no space is left for {tmp_path}; {up.MAKE_ROOM}\n"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space is left"),
        (OperationalError("database or disk is full"), "no space is left"),
        (OperationalError("database disk image is malformed"), "is damaged"),
        (OperationalError("connection refused\nmore"), "cannot be used: connection refused"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), "cannot start: "),
    ],
)
def test_the_reason_why_the_site_cannot_start_is_reported(error, words):
    reason = up.reason(error)
    assert words in reason
    assert len(reason.splitlines()) == 1


def test_services_need_no_command_on_path():
    commands = up.Command()._services()
    assert {"valkey", "web", "worker-edits"} <= commands.keys()
    for command in commands.values():
        python, _, _, _, program, *_ = command
        assert Path(python).is_absolute()
        assert Path(program).is_absolute()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's end")
def test_a_killed_runner_leaves_no_service_behind():
    command = up.service_command(
        7, sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"
    )
    runner = f"import subprocess; subprocess.run({command!r})"
    process = subprocess.Popen([sys.executable, "-c", runner], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "up\n"
    (service,) = psutil.Process(process.pid).children()
    assert service.nice() == psutil.Process().nice() + 7
    process.kill()
    process.wait()
    service.wait(timeout=10)
    assert not service.is_running()
