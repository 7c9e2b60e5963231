"""The address is told when the site answers, by a process that takes nothing from it."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from leaderboard.operation import announcing


class Unwell(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(503)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
        pass


@pytest.fixture
def unwell() -> Iterator[str]:
    """The address of a site that answers, if only that it is unwell."""
    server = HTTPServer(("127.0.0.1", 0), Unwell)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_site_that_is_unwell_has_an_address_too(
    unwell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert announcing.main(unwell, "More comes behind it.") == 0
    told = capsys.readouterr().out
    assert told == f"\n  ConvergeBench is at {unwell}\n  Ctrl-C ends it.\n  More comes behind it.\n"


def test_a_site_that_never_answers_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, and nobody listens
        address = f"http://127.0.0.1:{free.getsockname()[1]}/"
        assert announcing.main(address, patience=0.1) == 1
    assert f"did not answer at {address}" in capsys.readouterr().out


def test_it_imports_nothing_that_the_first_page_waits_for(unwell: str) -> None:
    code = (
        "import sys; from leaderboard.operation import announcing; "
        f"assert announcing.main({unwell!r}) == 0; "
        "sys.exit(any(name in sys.modules for name in ('django', 'PIL', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
