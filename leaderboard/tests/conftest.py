"""Fixtures that several tests of the site share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches

from convergebench_site.caches import PlainSerializer, SizedCache
from evaluation.testing.local_server import LocalServer
from examples.example_server import Handler
from leaderboard.models import Suite
from leaderboard.testing.factories import tiny_suite
from leaderboard.testing.fake_s3 import FakeS3
from leaderboard.testing.played import QUICK, QUICK_WITNESSES
from leaderboard.testing.worker_processes import WorkerProcesses


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    """Clear cached pages and rate limits of earlier tests."""
    for name in ("default", "counters"):
        caches[name].clear()


@pytest.fixture(autouse=True, scope="session")
def _values_as_from_a_shared_cache() -> Iterator[None]:
    """Cache what Redis would give back, so that code cannot rely on pickled objects."""
    store, serializer = SizedCache.set, PlainSerializer()

    def set_plain(self: SizedCache, key: str, value: Any, *args: Any, **kwargs: Any) -> None:
        stored = serializer.dumps(value)
        plain = str(stored).encode() if isinstance(stored, int) else stored
        store(self, key, serializer.loads(plain), *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SizedCache, "set", set_plain)
        yield


@pytest.fixture
def local(settings: Any) -> None:
    settings.ALLOW_LOCAL_ENDPOINTS = True


@pytest.fixture
def quick_metrics(settings: Any) -> None:
    settings.METRICS, settings.WITNESSES = QUICK, QUICK_WITNESSES


@pytest.fixture
def suite(db: None) -> Suite:
    """Two small images with two pairs each."""
    return tiny_suite()


@pytest.fixture
def server() -> Iterator[str]:
    """The example server of the page /submit/, unchanged."""
    with LocalServer(Handler) as server:
        yield f"{server.url}/v1"


@pytest.fixture
def workers(tmp_path: Path, local: None, valkey: Any) -> Iterator[WorkerProcesses]:
    """Worker processes, which are stopped at the end of the test."""
    with WorkerProcesses(tmp_path) as workers:
        yield workers


@pytest.fixture
def s3(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeS3]:
    """The site's storage is in S3."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_MAX_ATTEMPTS": "1",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    with FakeS3() as s3:
        backend = {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": s3.options}
        settings.STORAGES = settings.STORAGES | {"default": backend}
        yield s3
