"""An S3 server whose objects are files, so that it can be killed and started again.

`python -m leaderboard.testing.cluster.s3_server FOLDER PORT`; with S3_SERVER_PASSWORD (and
S3_SERVER_USER) in the environment it answers only to that key. For trying things out: one folder,
no copies.
"""

from __future__ import annotations

import argparse
import hmac
import os
import re
import secrets
from collections.abc import Iterator, Mapping, MutableMapping
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from leaderboard.testing.fake_s3 import BUCKET, FakeS3, Handler


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


class Store(Handler):
    """Answers whoever signs with the key (its name, the secret); anybody where there is none."""

    key: tuple[str, str] | None = None

    def _handle(self) -> None:
        if self.key and not is_signed(self.command, self.path, dict(self.headers), *self.key):
            self.close_connection = True  # what it sends is not read
            self._send(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        elif urlsplit(self.path).path == "/":
            name = f"<Buckets><Bucket><Name>{BUCKET}</Name></Bucket></Buckets>"
            self._send(200, f"<ListAllMyBucketsResult>{name}</ListAllMyBucketsResult>".encode())
        else:
            super()._handle()

    do_GET = do_PUT = do_HEAD = do_DELETE = _handle  # noqa: N815


def is_signed(method: str, path: str, headers: Mapping[str, str], name: str, secret: str) -> bool:
    """Whether a request is signed with this key, as Amazon's fourth version has it."""
    headers = {header.lower(): value for header, value in headers.items()}
    told = dict(
        re.findall(
            r"(Credential|SignedHeaders|Signature)=([^,\s]+)", headers.get("authorization", "")
        )
    )
    who, *scope = told.get("Credential", "").split("/")
    if who != name or len(scope) != 4 or "Signature" not in told:
        return False
    request = AWSRequest(method, f"http://{headers.get('host', '')}{path}")
    for header in told.get("SignedHeaders", "").split(";"):
        request.headers[header] = headers.get(header, "")
    request.context["timestamp"] = headers.get("x-amz-date", "")
    auth = S3SigV4Auth(Credentials(name, secret), "s3", scope[1])
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return hmac.compare_digest(auth.signature(text, request), told["Signature"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("--host", default="127.0.0.1")
    args = parser.parse_args()
    name, secret = (os.environ.get(f"S3_SERVER_{what}", "") for what in ("USER", "PASSWORD"))
    own = {"s3": FakeS3(Files(args.folder)), "key": (name, secret) if secret else None}
    server = ThreadingHTTPServer((args.host, args.port), type("OwnStore", (Store,), own))
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    os.umask(0o077)
    main()
