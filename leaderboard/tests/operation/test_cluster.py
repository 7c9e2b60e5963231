"""Many machines as processes of one: whoever is killed, scores stay the same to the byte."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from django.conf import settings

from evaluation.testing.local_server import LocalServer
from leaderboard.testing.cluster.parts import free_port
from leaderboard.testing.cluster.s3_server import Files

KILLS = 5


class Backend(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"here")

    def log_message(self, *about: object) -> None:
        pass


@pytest.fixture
def proxy() -> Iterator[tuple[int, LocalServer]]:
    """A proxy before a web server that lives and one that does not."""
    port, dead = free_port(), free_port()
    with LocalServer(Backend) as living:
        command = ["-m", "leaderboard.testing.cluster.proxy", str(port), str(dead)]
        process = subprocess.Popen(
            [sys.executable, *command, str(living.server_port)], cwd=settings.BASE_DIR
        )
        yield port, living
        process.kill()
        process.wait()


def status(port: int) -> int:
    for _ in range(200):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/")
            return connection.getresponse().status
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the proxy did not start")


def test_the_proxy_passes_over_a_web_server_that_is_gone(proxy: tuple[int, LocalServer]):
    port, living = proxy
    assert {status(port) for _ in range(6)} == {200}
    living.shutdown()
    living.server_close()
    assert status(port) == 503


def test_what_the_s3_server_was_given_outlives_it(tmp_path: Path):
    Files(tmp_path)["originals/ab/cd.png"] = b"bytes"
    again = Files(tmp_path)
    assert list(again) == ["originals/ab/cd.png"]
    assert again["originals/ab/cd.png"] == b"bytes"
    with pytest.raises(KeyError):
        again["../outside"]
    del again["originals/ab/cd.png"]
    assert not again


@pytest.mark.slow
@pytest.mark.skipif("CLUSTER_DRILL" not in os.environ, reason="a dozen processes: CLUSTER_DRILL=1")
def test_parts_are_killed_at_random_and_scores_are_the_same_to_the_byte():
    """`make cluster ARGS="--kills 25"` is the same with more kills."""
    command = ["-m", "leaderboard.testing.cluster", "--port", str(free_port())]
    done = subprocess.run(
        [sys.executable, *command, "--kills", str(KILLS)],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        timeout=7200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "nothing differs" in done.stdout
    assert "pages answer" in done.stdout
