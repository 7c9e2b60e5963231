"""The standard library's HTTP server on a free local port."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class LocalServer(ThreadingHTTPServer):
    """`with LocalServer(Handler) as server: server.url`"""

    daemon_threads = True

    def __init__(self, handler: Callable[..., BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        # By default the server would check for a shutdown only every half second.
        options = {"poll_interval": 0.01}
        threading.Thread(target=self.serve_forever, kwargs=options, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, *about: Any) -> None:
        """Ignore errors: handlers fail on purpose, and the test's client notices."""
