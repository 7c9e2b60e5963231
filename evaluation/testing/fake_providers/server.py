"""A local HTTP server that imitates a provider: it edits images, or misbehaves on request.

    with FakeBFL() as fake:
        fake.next("limited", "edit")       # how the next edits are answered; afterwards "edit"
        editor = load_editor("bfl", model="flux-2-pro", **fake.options)

The attribute `edit` (image, prompt, seed → image) is the model. `fake.requests` has every request,
and `fake.edits` counts the requested edits. A case names how a request is answered: "edit" is the
edited image, and others are errors, refusals or broken answers.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import struct
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar
from urllib.parse import urlsplit

from PIL import Image, ImageChops

from evaluation.editors import Editor
from evaluation.images import EncodedImage, encode_jpeg, encode_png
from evaluation.testing.local_server import LocalServer

Edit = Callable[[EncodedImage, str, int | None], EncodedImage]

KEY = "canary-key-7f3a9c"


def tinted(image: EncodedImage, prompt: str, seed: int | None) -> EncodedImage:
    """Tint the image: a visible edit without a model."""
    tint = Image.new("RGB", image.size, (9, 0, 4))
    return EncodedImage.from_image(ImageChops.add(image.decoded, tint))


def by_editor(editor: Editor) -> Edit:
    """Return an `edit` that answers exactly like this editor, such as a reference editor."""
    return lambda image, prompt, seed: editor.edit(image, prompt, seed).image


@dataclass(frozen=True)
class Received:
    """A request as it arrived. Header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class EditRequest:
    """The edit that a request asks for, parsed from the provider's wire format."""

    image: bytes = field(repr=False)
    prompt: str
    seed: int | None = None


@dataclass(frozen=True)
class Reply:
    """An answer to send, complete or broken in some way."""

    status: int = 200
    body: bytes = b""
    mime: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    pause: float = 0  # seconds before the first byte
    drip: float = 0  # seconds between bytes
    lost: int = 0  # bytes of the stated length that are not sent
    hang_up: bool = False  # close without an answer

    @classmethod
    def of(cls, content: Any, status: int = 200, **options: Any) -> Reply:
        return cls(status, json.dumps(content).encode(), **options)


#: Cases with a valid answer that contains another image than the edited one.
IMAGES: dict[str, Callable[[Image.Image], bytes]] = {
    "truncated": lambda image: encode_png(image)[:-40],
    "wrong-type": lambda image: _save(image, "GIF"),
    "no-image": lambda image: b"",
    "html-image": lambda image: b"<!DOCTYPE html><title>Sign in</title>",
    "other-size": lambda image: encode_png(image.resize((image.width * 2, image.height))),
    "jpeg": lambda image: encode_jpeg(image, 90),
    "bomb": lambda image: bomb(30_000, 30_000),
}


#: Cases that a provider answers with an error in its own format; some errors say how long to wait.
STATUSES = {
    "limited": 429,
    "limited-wait": 429,
    "server-error": 500,
    "overloaded": 503,
    "key-rejected": 401,
    "no-credit": 402,
    "gone": 404,
    "bad-request": 400,
}
WAITS = {"limited-wait": "7", "overloaded": "3"}
#: Cases that break the provider's format.
BROKEN = {
    "bad-gateway": Reply(502, b"<html><h1>502 Bad Gateway</h1></html>", "text/html"),
    "html": Reply(200, b"<html><title>Sign in</title></html>", "text/html"),
    "empty": Reply(200, b""),
    "nonsense": Reply(200, b'["what", "is", "this"]'),
    "cut": Reply(200, b'{"half": "an', lost=1000),
    "reset": Reply(hang_up=True),
    "slow": Reply(200, b"{}", pause=60),
    "drip": Reply(200, b" " * 6000, drip=0.05),
}


class FakeProvider:
    """Base of the fake providers. A subclass implements one wire format."""

    name: ClassVar[str]  # of the editor that calls it
    key_variable: ClassVar[str]
    prefix: ClassVar[str] = ""  # the path of the API's base address
    row: ClassVar[Mapping[str, Any]]  # options of a typical model
    #: Cases that are refusals.
    refusals: ClassVar[tuple[str, ...]]
    polls: ClassVar[bool] = False
    returns_url: ClassVar[bool] = False

    def __init__(self, edit: Edit = tinted) -> None:
        self.edit = edit
        self.requests: list[Received] = []
        self.edits = 0
        self.files: dict[str, list[Reply]] = {}
        self._cases: deque[str] = deque()
        self._lock = threading.Lock()
        self._ended = threading.Event()

    # Implemented by a subclass.

    def is_edit(self, request: Received) -> bool:
        raise NotImplementedError

    def read(self, request: Received) -> EditRequest:
        raise NotImplementedError

    def answer(self, edit: EditRequest, data: bytes, case: str) -> Reply:
        raise NotImplementedError

    def error(self, status: int, kind: str) -> Reply:
        """Return an error in this provider's format; `kind` is a case."""
        raise NotImplementedError

    def other(self, request: Received) -> Reply:
        """Answer a request that is not an edit: a poll or an upload."""
        return Reply(404)

    def authorised(self, request: Received) -> bool:
        return request.headers.get("authorization") == f"Bearer {KEY}"

    # Used by tests.

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self._server.server_address[:2])

    @property
    def base_url(self) -> str:
        return self.url + self.prefix

    @property
    def options(self) -> dict[str, Any]:
        """Options for the editor: this server's address, and short waits."""
        return {**self.row, "base_url": self.base_url, "timeout": 30.0, "poll_every": 0.01}

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the editor: its key, and no proxy for this machine."""
        return {self.key_variable: KEY, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}

    @property
    def edit_requests(self) -> list[Received]:
        """All requests for an edit."""
        return [request for request in self.requests if self.is_edit(request)]

    def next(self, *cases: str) -> None:
        """Set the cases of the next edits."""
        self._cases.extend(cases)

    def store(self, data: bytes, *replies: Reply, mime: str = "image/png") -> str:
        """Serve a file after these replies; return its address."""
        path = f"/files/{len(self.files)}.png"
        self.files[path] = [*replies, Reply(body=data, mime=mime)]
        return self.url + path

    def handle(self, request: Received) -> Reply:
        with self._lock:
            self.requests.append(request)
            if request.path in self.files:
                replies = self.files[request.path]
                return replies.pop(0) if len(replies) > 1 else replies[0]
            is_edit = self.is_edit(request)
            case = (self._cases.popleft() if self._cases else "edit") if is_edit else ""
            self.edits += is_edit
        if not self.authorised(request):
            return self.error(401, "key-rejected")
        if not is_edit:
            return self.other(request)
        return self.misbehave(case) or self._edited(request, case)

    def misbehave(self, case: str) -> Reply | None:
        """Return the answer of a case in which no image is edited; None for other cases."""
        if case in self.refusals:
            return self.error(400, case)
        if case in STATUSES:
            reply = self.error(STATUSES[case], case)
            waits = {"Retry-After": WAITS[case]} if case in WAITS else {}
            return replace(reply, headers=waits)
        if case == "error-inside":
            return Reply(200, self.error(500, case).body)
        if case == "redirect":
            return Reply(302, headers={"Location": self.url + "/elsewhere"})
        return BROKEN.get(case)

    def _edited(self, request: Received, case: str) -> Reply:
        try:
            edit = self.read(request)
            before = EncodedImage.from_bytes(edit.image)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            return self.error(400, f"bad-request: {error!r}")
        assert before.mime == "image/png", "a provider is sent PNG"
        after = self.edit(before, edit.prompt, edit.seed)
        data = IMAGES[case](after.decoded) if case in IMAGES else after.data
        return self.answer(edit, data, case)

    def __enter__(self) -> FakeProvider:
        fake = self

        class Handler(_Handler):
            provider = fake

        self._server = LocalServer(Handler).__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._server.__exit__(*exception)

    def pause(self, seconds: float) -> None:
        self._ended.wait(seconds)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    provider: FakeProvider

    def _handle(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        parts = urlsplit(self.path)
        request = Received(
            self.command,
            parts.path,
            parts.query,
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(length),
        )
        with contextlib.suppress(ConnectionError):  # the caller gave up
            self._send(self.provider.handle(request))

    do_GET = do_POST = do_PUT = _handle  # noqa: N815

    def _send(self, reply: Reply) -> None:
        if reply.hang_up:
            self.close_connection = True
            return
        self.provider.pause(reply.pause)
        self.send_response(reply.status)
        if reply.mime:
            self.send_header("Content-Type", reply.mime)
        self.send_header("Content-Length", str(len(reply.body) + reply.lost))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if reply.drip:
            for byte in reply.body:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                self.provider.pause(reply.drip)
                if self.provider._ended.is_set():
                    return
        else:
            self.wfile.write(reply.body)
        if reply.lost:
            self.close_connection = True

    def log_message(self, *args: Any) -> None:
        pass


def from_data_uri(uri: str) -> bytes:
    kind, _, data = uri.partition(",")
    if kind != "data:image/png;base64":
        raise ValueError(f"not a PNG data URI: {kind[:40]}")
    return base64.b64decode(data, validate=True)


def _save(image: Image.Image, kind: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def bomb(width: int, height: int) -> bytes:
    """Return a PNG of a few bytes whose header states this size."""

    def chunk(name: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + crc

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def now() -> int:
    return int(time.time())
