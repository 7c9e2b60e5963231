"""`make containers`: start compose.yaml as a newcomer does, in images built of Debian's packages.

The proxy must serve the board by TLS. A run is played and scored while a worker, a scorer and the
database are killed, and each must restart. Needs podman, podman-compose and mmdebstrap.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
PROJECT = "convergebench-drill"
AUTHORITY = "/data/caddy/pki/authorities/local/root.crt"
KILLED = ("edits", "gpu", "web", "db")


class Site:
    """The containers of one compose project, in a folder with its own .env."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port

    def compose(self, *arguments: str) -> str:
        return output("podman-compose", "--project-name", PROJECT, *arguments, cwd=self.folder)

    def manage(self, *arguments: str) -> str:
        return output("podman", "exec", self.name("web"), "/app/deploy/entrypoint.sh", *arguments)

    def name(self, part: str) -> str:
        """Return the container of a part; compose has two spellings of its name."""
        names = output("podman", "ps", "--all", "--format", "{{.Names}}").split()
        wanted = {f"{PROJECT}{mark}{part}{mark}1" for mark in "_-"}
        return next((name for name in names if name in wanted), "")

    def state(self, part: str) -> dict[str, Any]:
        about = json.loads(output("podman", "inspect", self.name(part)))[0]
        return {**about["State"], "host": about["HostConfig"], "config": about["Config"]}

    def kill(self, part: str) -> None:
        """Kill a container's first process from outside, so that podman must restart it."""
        os.kill(self.state(part)["Pid"], signal.SIGKILL)

    def is_back(self, part: str, before: int) -> bool:
        """Return True if a new process runs in place of the one that was killed."""
        return self.state(part)["Pid"] not in (0, before)

    def get(self, path: str) -> bytes:
        """Return a page, by TLS with the proxy's certificate authority."""
        authority = output("podman", "exec", self.name("proxy"), "cat", AUTHORITY)
        context = ssl.create_default_context(cadata=authority)
        address = f"https://localhost:{self.port}{path}"
        with urllib.request.urlopen(address, timeout=60, context=context) as response:
            data: bytes = response.read()
            return data


def output(*command: str, cwd: Path = ROOT) -> str:
    """Run a command and return its output. Raises RuntimeError if it fails."""
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)}: {result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.stdout


def say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


def wait(event: str, condition: Callable[[], Any], seconds: float = 1800) -> None:
    """Wait until the condition holds; ignore errors that it raises before."""
    deadline, why = time.monotonic() + seconds, ""
    while time.monotonic() < deadline:
        try:
            if condition():
                say(event)
                return
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            why = str(error)
        time.sleep(2)
    raise AssertionError(f"not within {seconds:g} s: {event}. {why}")


def drill(site: Site) -> None:
    site.compose("up", "--detach")
    wait("the proxy serves the board by TLS", lambda: b"ConvergeBench" in site.get("/"))
    for part in ("web", "edits", "probes", "gpu"):
        state = site.state(part)
        assert state["host"]["ReadonlyRootfs"], f"{part} may write to its root"
        assert state["config"]["User"] == "10001", f"{part} runs as {state['config']['User']}"
    wait("the smoke suite is loaded", lambda: b"smoke" in site.get("/api/v1/suites"))
    site.manage("start_run", "jpeg-75", "--suite", "smoke")
    wait("a run has begun", lambda: b'"edits_done": 0' not in runs(site))
    for part in KILLED:
        before = site.state(part)["Pid"]
        site.kill(part)
        wait(f"{part} was killed and restarted by itself", partial(site.is_back, part, before), 300)
    wait("the run has its score", lambda: b'"state": "finished"' in runs(site), 3600)
    wait("the board shows it", lambda: b"jpeg-75" in site.get("/"), 300)


def runs(site: Site) -> bytes:
    """Return the states of all runs as JSON."""
    code = (
        "import json; from leaderboard.models import Run; "
        "print(json.dumps(list(Run.objects.values('state', 'progress__edits_done', 'reason_text'))))"
    )
    return site.manage("shell", "--command", code).encode()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make containers", description=__doc__)
    parser.add_argument("--port", type=int, default=8443, help="port of the proxy (8443)")
    parser.add_argument("--built", action="store_true", help="use images that are built already")
    parser.add_argument("--keep", action="store_true", help="do not stop the site at the end")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="convergebench-containers-") as name:
        folder = Path(name)
        shutil.copy(ROOT / "compose.yaml", folder)
        (folder / "deploy").mkdir()
        shutil.copy(ROOT / "deploy/Caddyfile", folder / "deploy")
        folder.chmod(0o755)
        build = ("--settings",) if args.built else ()
        settings = output(str(ROOT / "deploy/make_env.sh"), "localhost")
        settings += output(str(ROOT / "deploy/debian_images.sh"), *build)
        ports = f"HTTP_PORT={args.port + 1}\nHTTPS_PORT={args.port}\n"
        # One metric is enough for a score.
        (folder / ".env").write_text(settings + ports + "METRICS=psnr\n")
        site = Site(folder, args.port)
        try:
            drill(site)
        finally:
            if not args.keep:
                site.compose("down", "--volumes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
