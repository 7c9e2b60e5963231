"""An S3 server whose objects are files, so that it can be killed and started again.

`python -m leaderboard.testing.cluster.s3_server FOLDER PORT`
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, MutableMapping
from http.server import ThreadingHTTPServer
from pathlib import Path

from leaderboard.testing.fake_s3 import FakeS3, Handler


class Files(MutableMapping[str, bytes]):
    """Objects by key, each a file below a folder, written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, key: str) -> bytes:
        try:
            return self._path(key).read_bytes()
        except OSError:
            raise KeyError(key) from None

    def __setitem__(self, key: str, data: bytes) -> None:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = self.folder / f".{secrets.token_hex(8)}"
        aside.write_bytes(data)
        aside.replace(path)

    def __delitem__(self, key: str) -> None:
        try:
            self._path(key).unlink()
        except OSError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[str]:
        for path in self.folder.rglob("[!.]*"):
            if path.is_file():
                yield path.relative_to(self.folder).as_posix()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _path(self, key: str) -> Path:
        path = self.folder / key
        if ".." in Path(key).parts:
            raise KeyError(key)
        return path


def main(folder: str, port: str) -> None:
    s3 = FakeS3(Files(Path(folder)))
    server = ThreadingHTTPServer(
        ("127.0.0.1", int(port)), type("OwnHandler", (Handler,), {"s3": s3})
    )
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    os.umask(0o077)
    main(*sys.argv[1:])
