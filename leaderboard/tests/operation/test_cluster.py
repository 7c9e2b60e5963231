"""Many machines as processes of one: whoever is killed, scores stay the same to the byte."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from django.conf import settings

from evaluation.testing.local_server import LocalServer
from leaderboard.testing.cluster.parts import free_port
from leaderboard.testing.cluster.s3_server import Files, Store
from leaderboard.testing.fake_s3 import BUCKET, FakeS3

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


def test_the_s3_server_answers_to_its_key_alone(tmp_path: Path):
    own = {"s3": FakeS3(Files(tmp_path)), "key": ("name", "right")}
    with LocalServer(type("OwnStore", (Store,), own)) as server:

        def client(secret: str) -> Any:
            return boto3.client(
                "s3",
                endpoint_url=server.url,
                region_name="local",
                aws_access_key_id="name",
                aws_secret_access_key=secret,
            )

        ours, theirs = client("right"), client("wrong")
        assert [bucket["Name"] for bucket in ours.list_buckets()["Buckets"]] == [BUCKET]
        ours.put_object(Bucket=BUCKET, Key="originals/a b.png", Body=b"bytes")
        assert ours.get_object(Bucket=BUCKET, Key="originals/a b.png")["Body"].read() == b"bytes"
        for ask in (
            lambda: theirs.get_object(Bucket=BUCKET, Key="originals/a b.png"),
            lambda: theirs.put_object(Bucket=BUCKET, Key="originals/a b.png", Body=b"other"),
        ):
            with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
                ask()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"{server.url}/{BUCKET}/originals/a%20b.png")
    assert Files(tmp_path)["originals/a b.png"] == b"bytes"


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
