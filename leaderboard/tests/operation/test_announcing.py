"""The address is printed when the site answers, by a process without Django."""

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
    """Yield the address of a site that answers with errors only."""
    server = HTTPServer(("127.0.0.1", 0), Unwell)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_address_of_a_failing_site_is_printed_too(
    unwell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert announcing.main(unwell, "More comes behind it.") == 0
    printed = capsys.readouterr().out
    assert (
        printed == f"\n  ConvergeBench is at {unwell}\n  Ctrl-C ends it.\n  More comes behind it.\n"
    )


def test_waiting_for_a_site_that_never_answers_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, but without a listener
        address = f"http://127.0.0.1:{free.getsockname()[1]}/"
        assert announcing.main(address, patience=0.1) == 1
    assert f"did not answer at {address}" in capsys.readouterr().out


def test_announcing_imports_no_django(unwell: str) -> None:
    code = (
        "import sys; from leaderboard.operation import announcing; "
        f"assert announcing.main({unwell!r}) == 0; "
        "sys.exit(any(name in sys.modules for name in ('django', 'PIL', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
