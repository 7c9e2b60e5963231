"""Many machines as processes of one: whoever is killed, scores stay the same to the byte."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
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
