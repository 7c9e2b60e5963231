"""Stand-ins for name resolution, so that tests decide what a name resolves to."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable
from typing import Any

#: A public address, which example.org had in the past.
PUBLIC = "93.184.216.34"


def resolver(*answers: str | Iterable[str]) -> Callable[..., Any]:
    """Return a stand-in for getaddrinfo with one answer per lookup; the last is repeated."""
    left = [[a] if isinstance(a, str) else list(a) for a in answers]

    def lookup(host: str, port: int, *_: Any) -> list[Any]:
        try:
            addresses = [str(ipaddress.ip_address(host))]
        except ValueError:
            addresses = left.pop(0) if len(left) > 1 else left[0]
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (a, port, 0, 0))
            if ":" in a
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port))
            for a in addresses
        ]

    return lookup
