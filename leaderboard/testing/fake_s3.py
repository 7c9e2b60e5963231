"""A local server with the part of S3 that the site's storage uses; it fails on request."""

from __future__ import annotations

import hashlib
from collections.abc import MutableMapping
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from evaluation.testing.local_server import LocalServer

BUCKET = "images"


class FakeS3:
    """`with FakeS3() as s3: s3.url`; with `s3.fails = 503` every answer has that status.

    With `s3.failures = 3` only the next three answers have that status.
    """

    def __init__(self, objects: MutableMapping[str, bytes] | None = None) -> None:
        self.objects: MutableMapping[str, bytes] = {} if objects is None else objects
        self.fails = 0
        self.failures: int | None = None
        self.puts: list[str] = []

    def __enter__(self) -> Self:
        fake = self

        class OwnHandler(Handler):
            s3 = fake  # type: ignore[assignment]

        self._server = LocalServer(OwnHandler).__enter__()
        self.url = self._server.url
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.__exit__(*exc)

    @property
    def options(self) -> dict[str, Any]:
        """The options of the storage in the settings."""
        return {"bucket_name": BUCKET, "endpoint_url": self.url, "file_overwrite": True}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    s3: FakeS3

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = urlsplit(self.path)
        key = unquote(parts.path).removeprefix(f"/{BUCKET}").lstrip("/")
        if self.s3.failures == 0:
            self.s3.fails = 0
        if self.s3.fails:
            if self.s3.failures:
                self.s3.failures -= 1
            code = {403: "InvalidAccessKeyId"}.get(self.s3.fails, "SlowDown")
            self._send(self.s3.fails, f"<Error><Code>{code}</Code></Error>".encode())
        elif self.command == "PUT":
            if "aws-chunked" in self.headers.get("content-encoding", ""):
                body = _unchunked(body)
            self.s3.objects[key] = body
            self.s3.puts.append(key)
            self._send(200, etag=body)
        elif self.command == "DELETE":
            self.s3.objects.pop(key, None)
            self._send(204)
        elif not key:
            self._send(200, self._listing(parse_qs(parts.query)["prefix"][0]))
        elif key in self.s3.objects:
            self._send(200, self.s3.objects[key], etag=self.s3.objects[key])
        else:
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>")

    do_GET = do_PUT = do_HEAD = do_DELETE = _handle  # noqa: N815

    def _listing(self, prefix: str) -> bytes:
        below = [key.removeprefix(prefix) for key in self.s3.objects if key.startswith(prefix)]
        folders = sorted({key.partition("/")[0] for key in below if "/" in key})
        files = sorted(key for key in below if "/" not in key)
        return (
            "<ListBucketResult>"
            + "".join(f"<Contents><Key>{escape(prefix + name)}</Key></Contents>" for name in files)
            + "".join(
                f"<CommonPrefixes><Prefix>{escape(prefix + name)}/</Prefix></CommonPrefixes>"
                for name in folders
            )
            + "</ListBucketResult>"
        ).encode()

    def _send(self, status: int, body: bytes = b"", etag: bytes | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", formatdate(usegmt=True))
        if etag is not None:
            self.send_header("ETag", f'"{hashlib.md5(etag).hexdigest()}"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


def _unchunked(body: bytes) -> bytes:
    """Return the content of a body that is in Amazon's chunked encoding."""
    content = b""
    while body:
        head, _, body = body.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if not size:
            break
        content, body = content + body[:size], body[size + 2 :]
    return content
