"""Base of the contracts of submitted endpoints: settings, requests and calls.

A contract (API format) defines the request for an edit and where the answer has the image. It
builds a `Request` with a placeholder for the image. The request is then sent, or shown as a curl
command.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from evaluation.editors.failures import misconfigured
from evaluation.net.client import HttpClient, Reply, multipart

# Placeholder of the image's base64; unguessable, so that no prompt can contain it.
IMAGE = f"image-{secrets.token_hex(16)}"
MAX_EXTRA_LENGTH = 4_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_SIZE = re.compile(r"[1-9][0-9]{1,4}x[1-9][0-9]{1,4}")


@dataclass
class Settings:
    """Settings of the calls to an endpoint: the fields of the submission form.

    `size` is "input" (request the input's size), "omit", or fixed like "1024x1024". `image_field`
    and `prompt_field` rename the contract's fields; "images[]" sends a list with one image.
    `extra` is merged into the request. `timeout` is the wall time in seconds for a whole edit.
    """

    url: str
    contract: str = "openai-edits"
    model: str = ""
    api_key: str = field(default="", repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict)
    send_seed: bool = True
    send_response_format: bool = True
    size: str = "input"
    image_field: str = ""
    prompt_field: str = ""
    timeout: float = 300.0

    def dimensions(self, size: tuple[int, int]) -> tuple[int, int] | None:
        """Return the width and height to request for an input of this size; None to omit them."""
        if self.size == "omit":
            return None
        if self.size == "input":
            return size
        width, _, height = self.size.partition("x")
        return int(width), int(height)


@dataclass(frozen=True)
class Request:
    """The request of one edit, with IMAGE as a placeholder of the image.

    The body is either `json`, or multipart: `form` and the image as the file `image_field`.
    """

    url: str
    json: Mapping[str, Any] | None = None
    form: Mapping[str, str] | None = None
    image_field: str = "image"
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self, png: bytes) -> tuple[str, bytes]:
        """Return the content type, and the body with the image."""
        if self.json is None:
            file = (f"{self.image_field}.png", png, "image/png")
            return multipart(self.url, {self.image_field: file}, self.form)
        # Inserted afterwards: escaping two megabytes of base64 as JSON would be wasted time.
        before, after = json.dumps(self.json).encode().split(IMAGE.encode())
        return "application/json", b"".join((before, base64.b64encode(png), after))

    def as_curl(self, *, with_key: bool) -> str:
        """Return a curl command that sends image.png, with $API_KEY for the key."""
        quote = shlex.quote
        headers = [f"-H {quote(f'{name}: {value}')}" for name, value in self.headers.items()]
        if with_key:
            headers.append('-H "Authorization: Bearer $API_KEY"')
        parts = [f"curl {quote(self.url)}", *headers]
        if self.json is None:
            parts.append(f"-F {quote(f'{self.image_field}=@image.png;type=image/png')}")
            # --form-string, because -F would read a value that begins with @ or < as a file name.
            parts += [f"--form-string {quote(f'{k}={v}')}" for k, v in (self.form or {}).items()]
            return " \\\n  ".join(parts)
        before, after = json.dumps(self.json, ensure_ascii=False).split(IMAGE)
        parts += ["-H 'Content-Type: application/json'", "--data-binary @-"]
        body = (
            f"printf %s {quote(before)}; base64 < image.png | tr -d '\\n'; printf %s {quote(after)}"
        )
        return f"{{ {body}; }} |\n" + " \\\n  ".join(parts)


class Call:
    """One edit in progress: sends requests within one deadline."""

    def __init__(self, client: HttpClient, settings: Settings) -> None:
        self._client = client
        self.settings = settings
        self._deadline = time.monotonic() + settings.timeout
        self.notes: dict[str, Any] = {}
        #: The type that the answer states for the image; its bytes may be of a different type.
        self.stated_type = ""

    def seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def post(self, request: Request, png: bytes, idempotency_key: str) -> Reply:
        content_type, content = request.encode(png)
        headers = {
            **request.headers,
            **self._authorization(),
            "Content-Type": content_type,
            "Idempotency-Key": idempotency_key,
        }
        return self._send("POST", request.url, headers, content)

    def poll(self, url: str) -> Reply:
        """Poll for the answer; the key is sent only to the endpoint's own origin."""
        same_origin = _origin(url) == _origin(self.settings.url)
        headers = self._authorization() if same_origin else {}
        return self._send("GET", url, headers, kind="answer_url")

    def fetch(self, url: str) -> Reply:
        """Fetch an image from a URL in the answer, without the key. The client checks the URL."""
        self.notes["fetched_from_url"] = True
        return self._send("GET", url, {}, kind="answer_url")

    def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        kind: str = "address",
    ) -> Reply:
        return self._client.send(
            method, url, headers=headers, content=content, timeout=self.seconds_left(), kind=kind
        )

    def _authorization(self) -> dict[str, str]:
        key = self.settings.api_key
        return {"Authorization": f"Bearer {key}"} if key else {}


class Contract(ABC):
    """The wire format of a request for an edit, and of its answer."""

    name: ClassVar[str]
    label: ClassVar[str]
    #: The end of the address's path, appended if missing.
    path: ClassVar[str] = ""
    image_field: ClassVar[str] = "image"
    prompt_field: ClassVar[str] = "prompt"
    #: Parameters that only the benchmark may set, not `extra`.
    reserved: ClassVar[frozenset[str]] = frozenset()

    def address(self, settings: Settings) -> str:
        """Return the full address; `settings.url` may be only its base ("https://host/v1")."""
        base, mark, query = settings.url.partition("?")
        if not base.rstrip("/").endswith(self.path):
            base = base.rstrip("/") + self.path
        return base + mark + query

    def check(self, settings: Settings) -> None:
        """Raise EditorError if no request can be built; the message never quotes the key."""
        if settings.size not in ("input", "omit") and not _SIZE.fullmatch(settings.size):
            raise misconfigured('the size must be "input", "omit" or like "1024x1024"')
        for name in (settings.image_field, settings.prompt_field):
            if name and not _NAME.fullmatch(name.removesuffix("[]")):
                raise misconfigured(f"{name!r} cannot be a field name")
        if not re.fullmatch(r"[!-~]*", settings.api_key):
            raise misconfigured("the key contains a space or an invalid character")
        if not 0 < settings.timeout <= 3600:
            raise misconfigured("the time-out must be between 0 and 3,600 seconds")
        self._check_extra(settings)

    def _check_extra(self, settings: Settings) -> None:
        extra = settings.extra
        try:
            text = json.dumps(extra, allow_nan=False, ensure_ascii=False)
            text.encode()  # lone surrogates can neither be sent nor shown
        except (TypeError, ValueError, RecursionError):
            raise misconfigured("the extra parameters are not plain JSON") from None
        if not isinstance(extra, Mapping) or len(text) > MAX_EXTRA_LENGTH:
            raise misconfigured(
                "the extra parameters must be a JSON object of up to "
                f"{MAX_EXTRA_LENGTH:,} characters"
            )
        reserved = self.reserved | {
            self.field(settings, "image")[0],
            self.field(settings, "prompt")[0],
        }
        for name in extra:
            if not _NAME.fullmatch(name):
                raise misconfigured(f"{name[:64]!r} cannot be the name of an extra parameter")
            if name in reserved:
                raise misconfigured(f"the extra parameter {name!r} is set by the benchmark")

    def field(self, settings: Settings, what: Literal["image", "prompt"]) -> tuple[str, bool]:
        """Return the name of the image's or prompt's field, and whether it takes a list."""
        chosen = settings.image_field if what == "image" else settings.prompt_field
        name = chosen or (self.image_field if what == "image" else self.prompt_field)
        return name.removesuffix("[]"), name.endswith("[]")

    @abstractmethod
    def request(
        self, settings: Settings, prompt: str, seed: int | None, size: tuple[int, int]
    ) -> Request:
        """Return the request for one edit of an image of this size."""

    @abstractmethod
    def image(self, call: Call, reply: Reply) -> bytes:
        """Return the encoded image in the reply. Raises Refused or EditorError."""


def _origin(url: str) -> tuple[str, str]:
    split = urlsplit(url)
    return split.scheme.lower(), split.netloc.lower()
