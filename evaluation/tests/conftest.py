"""Fixtures: a hostile server, a guarded client, and shared calibrations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evaluation.net.addresses import Rules
from evaluation.net.client import HttpClient
from evaluation.testing.hostile_server import HostileServer


@pytest.fixture(scope="session", autouse=True)
def calibrations_of_this_session(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Share calibrations between the tests of a session, not with earlier sessions."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("calibrations")
        patch.setenv("CONVERGEBENCH_CALIBRATIONS", str(folder))
        yield


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as server:
        yield server


@pytest.fixture
def events() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def client(events: list[tuple[str, str]]) -> Iterator[HttpClient]:
    client = HttpClient(
        Rules(allow_local=True),
        max_bytes=200_000,
        on_security_event=lambda kind, detail: events.append((kind, detail)),
    )
    yield client
    client.close()
