"""A hostile server, the guarded client that calls it, and calibrations that tests share."""

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
    """Calibrations are kept between tests, but never from one state of the code to the next."""
    with pytest.MonkeyPatch.context() as patch:
        kept = tmp_path_factory.mktemp("calibrations")
        patch.setenv("CONVERGEBENCH_CALIBRATIONS", str(kept))
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
