"""An S3 server whose objects are files, so that it can be killed and restarted.

`python -m leaderboard.testing.cluster.s3_server FOLDER PORT`. If S3_SERVER_PASSWORD (and
S3_SERVER_USER) are set in the environment, the server accepts only that key. It is for tests: all
data is in one folder, without copies.
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
    """Objects by key, each a file below a folder, written atomically."""

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
        temporary = self.folder / f".{secrets.token_hex(8)}"
        temporary.write_bytes(data)
        temporary.replace(path)

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
    """A handler that accepts requests signed with `key` (name, secret); all if `key` is None."""

    key: tuple[str, str] | None = None

    def _handle(self) -> None:
        if self.key and not is_signed(self.command, self.path, dict(self.headers), *self.key):
            self.close_connection = True  # the body is not read
            self._send(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        elif urlsplit(self.path).path == "/":
            name = f"<Buckets><Bucket><Name>{BUCKET}</Name></Bucket></Buckets>"
            self._send(200, f"<ListAllMyBucketsResult>{name}</ListAllMyBucketsResult>".encode())
        else:
            super()._handle()

    do_GET = do_PUT = do_HEAD = do_DELETE = _handle  # noqa: N815


def is_signed(method: str, path: str, headers: Mapping[str, str], name: str, secret: str) -> bool:
    """Return True if a request is signed with this key, by AWS Signature Version 4."""
    headers = {header.lower(): value for header, value in headers.items()}
    signed = dict(
        re.findall(
            r"(Credential|SignedHeaders|Signature)=([^,\s]+)", headers.get("authorization", "")
        )
    )
    signer, *scope = signed.get("Credential", "").split("/")
    if signer != name or len(scope) != 4 or "Signature" not in signed:
        return False
    request = AWSRequest(method, f"http://{headers.get('host', '')}{path}")
    for header in signed.get("SignedHeaders", "").split(";"):
        request.headers[header] = headers.get(header, "")
    request.context["timestamp"] = headers.get("x-amz-date", "")
    auth = S3SigV4Auth(Credentials(name, secret), "s3", scope[1])
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return hmac.compare_digest(auth.signature(text, request), signed["Signature"])


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
