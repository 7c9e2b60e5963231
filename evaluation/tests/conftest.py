"""A hostile server, and the guarded client that calls it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evaluation.http.addresses import Rules
from evaluation.http.guarded_client import GuardedClient
from evaluation.testing.hostile_server import HostileServer


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as server:
        yield server


@pytest.fixture
def events() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def client(events: list[tuple[str, str]]) -> Iterator[GuardedClient]:
    client = GuardedClient(
        Rules(allow_local=True),
        max_bytes=200_000,
        on_security_event=lambda kind, detail: events.append((kind, detail)),
    )
    yield client
    client.close()
