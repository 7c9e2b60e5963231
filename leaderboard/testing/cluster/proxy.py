"""A small proxy for several web servers: each connection goes to the next server that answers.

`python -m leaderboard.testing.cluster.proxy PORT BACKEND_PORT …`
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from contextlib import suppress

UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    b"Connection: close\r\n\r\n"
)


async def serve(port: int, backends: list[int]) -> None:
    """Serve until the process ends."""
    turn = itertools.count()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(turn)
        for place in range(len(backends)):
            backend = backends[(first + place) % len(backends)]
            with suppress(OSError):
                answers, requests = await asyncio.open_connection("127.0.0.1", backend)
                await asyncio.gather(_copy(reader, requests), _copy(answers, writer))
                return
        writer.write(UNAVAILABLE)
        await _close(writer)

    server = await asyncio.start_server(handle, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        writer.close()
        await writer.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), [int(port) for port in sys.argv[2:]]))
