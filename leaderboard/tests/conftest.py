"""What several tests of the site stand on."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer

import pytest

from evaluation.example_server import Handler


@pytest.fixture
def local(settings):
    settings.ALLOW_LOCAL_ENDPOINTS = True


@pytest.fixture
def server():
    """The example server of the page, as it is."""
    httpd = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Quiet", (Handler,), {"log_message": lambda *_: None})
    )
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_port}/v1"
    httpd.shutdown()
