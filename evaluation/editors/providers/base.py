"""Base of the editors of hosted models: handles key, deadline, size, price and failures.

Each provider's editor implements `_call_model`, which sends one edit and finds the image in the
answer.
"""

from __future__ import annotations

import ipaddress
import math
import os
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NoReturn, TypeVar

import httpx2
import tenacity

from evaluation.editors.base import DEFAULT_SETTINGS, Answer, Editor, EditSettings, Refused
from evaluation.editors.failures import (
    ErrorBody,
    bad_answer,
    failure,
    hide_key,
    misconfigured,
    retry_after,
    server_error,
    shorten,
)
from evaluation.editors.payloads import IMAGE_ADDRESS, decode_answer, from_base64, type_note
from evaluation.editors.sizes import Size, SizeRule, at_tier
from evaluation.errors import EditorError, Fault
from evaluation.images import EncodedImage, fit
from evaluation.net.addresses import is_private
from evaluation.net.client import HttpClient, Reply
from evaluation.packages import package_version
from evaluation.untrusted_json import parse_json

#: Suffices for a base64 image of the largest accepted size and the JSON around it.
MAX_BODY = 96 * 2**20

# Polls and fetches are free, so a paid image is not given up after one failure.
MAX_ATTEMPTS = 4

# Errors reported with status 200 that concern the service, not this image.
SERVICE_ERROR = re.compile(r"(?i)\binternal|server.?error|unavailable|overload|timed? ?out")

T = TypeVar("T")
Meanings = tuple[tuple[re.Pattern[str], Fault | None], ...]


@dataclass(frozen=True)
class Request:
    """The inputs of one edit."""

    image: EncodedImage
    prompt: str
    seed: int | None
    key: str = field(repr=False)
    settings: EditSettings = DEFAULT_SETTINGS

    @property
    def target_size(self) -> Size:
        """The size to request: the image's, or a size of the same shape in the chosen tier."""
        tier = self.settings.size
        return at_tier(self.image.size, tier) if tier else self.image.size


@dataclass(frozen=True)
class Edited:
    """The encoded answer, with notes and cost."""

    data: bytes = field(repr=False)
    notes: Mapping[str, Any] = field(default_factory=dict)
    cost: float | None = None
    #: The type that the answer states for the image; its bytes may be of a different type.
    stated_type: str = ""


@dataclass(kw_only=True, eq=False)
class HostedEditor(Editor):
    """A model behind a provider's API.

    The fields are the options of its row in fixtures/editing_models.json.
    """

    model: str
    base_url: str = ""
    size: Mapping[str, Any] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    price: float | None = None  # USD per edit
    price_date: str = ""
    min_input_side: int = 0
    timeout: float = 300.0  # seconds for a whole edit: sending, waiting, polling, fetching
    poll_every: float = 1.0
    # Names of the inputs, which differ between the models of a marketplace. An empty seed_field
    # means that the model takes no seed, an empty size_field that it takes width and height.
    image_field: str = "image"
    image_list: bool = False
    seed_field: str = "seed"
    ratio_field: str = "aspect_ratio"
    size_field: str = ""

    provider: ClassVar[str]
    key_variables: ClassVar[tuple[str, ...]]
    default_url: ClassVar[str]
    url_variable: ClassVar[str] = ""
    package: ClassVar[str] = ""  # the SDK's package; "": raw HTTP
    domain: ClassVar[str] = ""  # the key may also be sent to this domain and its subdomains
    #: Other hosts of the same API.
    other_hosts: ClassVar[tuple[str, ...]] = ()
    #: Patterns of an error's code and text, each with its fault (None: a refusal). The first match
    #: counts.
    meanings: ClassVar[Meanings] = ()

    def __post_init__(self) -> None:
        self.size_rule = SizeRule.from_row(self.size)
        self.http = HttpClient(None, name=self.provider, max_bytes=MAX_BODY)

    # Implemented by each provider's editor.

    @abstractmethod
    def _call_model(self, request: Request) -> Edited:
        """Send one edit and return its answer. Raises Refused or EditorError."""

    # Shared by all providers.

    @property
    def tiers(self) -> Collection[str]:
        return self.size_rule.tiers if self.size_rule else ()

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        return self.edit_with(image, prompt, seed, DEFAULT_SETTINGS)

    def edit_with(
        self, image: EncodedImage, prompt: str, seed: int | None, settings: EditSettings
    ) -> Answer:
        if missing := self.missing():
            raise misconfigured(f"{self.provider}: " + "; ".join(missing))
        image, notes = self._enlarged(image)
        request = Request(image, prompt, seed, self._key(), settings)
        started = time.monotonic()
        with self.http.call(self.timeout):
            try:
                edited = self._call_model(request)
                answered = decode_answer(edited.data)
            except (EditorError, Refused) as error:
                hide_key(request.key, error)
                raise
        notes |= {"mime": answered.mime, "model": self.model, **edited.notes}
        notes |= type_note(edited.stated_type, answered)
        cost = edited.cost if edited.cost is not None else self.price
        return Answer(answered, time.monotonic() - started, cost, notes)

    def _enlarged(self, image: EncodedImage) -> tuple[EncodedImage, dict[str, Any]]:
        """Return the image, enlarged if it is too small for the model, and a note if so."""
        scale = self.min_input_side / min(image.size)
        if scale <= 1:
            return image, {}
        size = math.ceil(image.width * scale), math.ceil(image.height * scale)
        return EncodedImage.from_image(fit(image.decoded, size)), {"sent_at": "{}x{}".format(*size)}

    def missing(self) -> list[str]:
        missing = []
        key = self._key()
        if not key:
            names = " or ".join(self.key_variables)
            missing.append(f"set the environment variable {names} to your {self.provider} key")
        elif not key.isascii() or not key.isprintable() or " " in key:
            missing.append(f"{self._key_variable()} contains invalid characters")
        if self.package and not package_version(self.package):
            missing.append(f"install {self.package} (pip install 'convergebench[providers]')")
        if not is_https(self.url) and not _is_loopback(self.url):
            missing.append(f"{self.url} is not an https address: the key would be sent unencrypted")
        return missing

    def describe(self) -> dict[str, Any]:
        described = {
            "provider": self.provider,
            "model": self.model,
            "url": self.url,
            "size": dict(self.size) if self.size else None,
            "params": dict(self.params),
            "price": self.price,
            "price_date": self.price_date,
            "timeout": self.timeout,
        }
        if self.package:
            described["sdk"] = f"{self.package} {package_version(self.package)}"
        return described

    def close(self) -> None:
        self.http.close()

    @cached_property
    def url(self) -> str:
        """The API's address: the row's, else the environment variable's, else the default."""
        url = self.base_url or os.environ.get(self.url_variable, "") or self.default_url
        return url.rstrip("/")

    @classmethod
    def is_known_host(cls, url: str) -> bool:
        """Return True if the URL is on a host of the provider, or on that in `url_variable`."""
        configured = os.environ.get(cls.url_variable, "") if cls.url_variable else ""
        hosts = {_host(address) for address in (cls.default_url, configured) if address}
        return _host(url) in hosts | set(cls.other_hosts)

    def _key_variable(self) -> str | None:
        return next((name for name in self.key_variables if os.environ.get(name, "").strip()), None)

    def _key(self) -> str:
        return os.environ.get(self._key_variable() or "", "").strip()

    # Raw HTTP.

    def inputs(self, request: Request, image: str) -> dict[str, Any]:
        """Return the model's inputs; `image` is an address, a data URI or base64."""
        inputs: dict[str, Any] = {
            "prompt": request.prompt,
            self.image_field: [image] if self.image_list else image,
        }
        if request.seed is not None and self.seed_field:
            inputs[self.seed_field] = request.seed
        return inputs | self._size_inputs(request) | dict(self.params)

    def _size_inputs(self, request: Request) -> dict[str, Any]:
        """Return the inputs that request a size, by the row's size rule."""
        rule = self.size_rule
        if not rule:
            return {}
        if rule.ratios:
            return {self.ratio_field: rule.nearest_ratio(request.image.size)}
        if rule.word:
            return {self.size_field or self.ratio_field: rule.word}
        width, height = rule.nearest(request.target_size)
        if self.size_field:
            return {self.size_field: self.format_size(width, height)}
        return {"width": width, "height": height}

    def format_size(self, width: int, height: int) -> Any:
        """Return a size in the provider's format for `size_field`."""
        return f"{width}x{height}"

    def stated_notes(self, answer: Mapping[str, Any], request: Request) -> dict[str, Any]:
        """Return notes on the seed, duration and changed prompt that the answer states."""
        notes = {
            f"stated_{name}": answer[name]
            for name in ("seed", "duration")
            if answer.get(name) is not None
        }
        if (used := answer.get("prompt")) and used != request.prompt:
            notes["revised_prompt"] = used
        return notes

    def post(self, path: str, request: Request, payload: Any, **headers: str) -> dict[str, Any]:
        """POST JSON and return the JSON answer. Raises Refused or EditorError for an error."""
        headers |= self._authorisation(request.key)
        reply = self.http.send("POST", f"{self.url}/{path}", headers=headers, json=payload)
        answer = self._parsed(reply)
        if request_id := reply.headers.get("x-request-id"):
            answer.setdefault("request_id", request_id)
        return answer

    def poll(self, url: Any, request: Request) -> dict[str, Any]:
        """Return the JSON at the provider's polling address; retry transient faults."""
        if not isinstance(url, str) or not self._trusts(url):
            raise EditorError(
                f"{self.provider} returned a polling address on another host "
                f"({origin(str(url))}); the key was not sent there",
                fault=Fault.BLOCKED,
                permanent=True,
                billed=True,
            )

        def get() -> dict[str, Any]:
            reply = self.http.send("GET", url, headers=self._authorisation(request.key))
            if reply.status in (404, 410):
                raise bad_answer(f"{self.provider} no longer knows the edit that it accepted")
            return self._parsed(reply)

        try:
            return self._with_retries(get)
        except EditorError as error:
            error.billed = True  # the edit was accepted
            raise

    def poll_until(self, ended: Collection[str], url: Any, request: Request) -> dict[str, Any]:
        """Poll until the status is one of `ended`; any other status means to wait."""
        while (answer := self.poll(url, request)).get("status") not in ended:
            self.http.sleep(self.poll_every)
        return answer

    def fetch_image(self, url: Any, notes: Mapping[str, Any]) -> Edited:
        """Fetch the image from this address, or decode this data URI."""
        if isinstance(url, str) and url.startswith("data:"):
            return Edited(from_base64(url), notes, stated_type=url[5:].partition(";")[0])
        reply = self._fetch(url)
        stated_type = reply.headers.get("content-type", "")
        return Edited(reply.body, {**notes, IMAGE_ADDRESS: url}, stated_type=stated_type)

    def fetch_again(self, url: str) -> bytes:
        """Fetch again an image that the provider still stores. Raises EditorError."""
        with self.http.call(self.timeout):
            return self._fetch(url).body

    def _fetch(self, url: Any) -> Reply:
        """Fetch an address from an answer, without credentials."""
        if not isinstance(url, str) or not url:
            raise bad_answer("the answer contains no image")
        # Untrusted models on a marketplace may answer with any address.
        elsewhere = origin(url) != origin(self.url)
        if elsewhere and (not is_https(url) or is_private(url)):
            raise bad_answer(f"the image is at an address that is not allowed: {origin(url)}")
        return self._with_retries(lambda: self._get_image(url))

    def raise_error(self, status: int, error: ErrorBody, wait: float | None = None) -> NoReturn:
        """Raise Refused or EditorError for an error, which may come with status 200."""
        text = error.text
        for pattern, fault in self.meanings:
            if not pattern.search(text):
                continue
            if fault is None:
                raise Refused(shorten(text), notes={"code": error.code, "status": status})
            transient = fault in (Fault.RATE_LIMITED, Fault.SERVER_ERROR)
            raise EditorError(
                f"{self.provider} answered {status}: {shorten(text)}",
                fault=fault,
                permanent=not transient,
                retry_after=wait,
            )
        if status < 300:
            make = server_error if SERVICE_ERROR.search(text) else bad_answer
            raise make(f"{self.provider} answered with an error: {shorten(text)}")
        raise failure(self.provider, status, text, wait)

    def _authorisation(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def _trusts(self, url: str) -> bool:
        """Return True if the key may be sent there: to the API or the provider's domain."""
        return origin(url) == origin(self.url) or bool(self.domain and is_host(url, self.domain))

    def _parsed(self, reply: Reply) -> dict[str, Any]:
        try:
            body = parse_json(reply.body)
        except ValueError:
            body = None
        if reply.status >= 300 or (isinstance(body, dict) and body.get("error")):
            self.raise_error(
                reply.status,
                self._parse_error(body, reply.text),
                self._seconds_to_wait(reply, body),
            )
        if not isinstance(body, dict):
            body_text = (
                f"{reply.media_type or 'no type'}: {shorten(reply.text)}"
                if reply.body
                else "nothing"
            )
            raise server_error(
                f"{self.provider} answered without a JSON object, but with {body_text}"
            )
        return body

    def _parse_error(self, body: Any, text: str) -> ErrorBody:
        return ErrorBody.read(body, text)

    def _seconds_to_wait(self, reply: Reply, body: Any) -> float | None:
        """Return the seconds to wait that the provider states; None if absent."""
        return retry_after(reply.headers)

    def sdk_client(self) -> httpx2.Client:
        """Return an HTTP client that checks each answer before an SDK reads it.

        The SDKs' own errors leave out details: an error with status 200, the body of a 502.
        """

        def check(response: httpx2.Response) -> None:
            body = response.read()
            self._parsed(Reply(response.status_code, response.headers, body))

        client = self.http.sdk_client
        client.event_hooks = {"response": [check]}
        return client

    def _get_image(self, url: str) -> Reply:
        reply = self.http.send("GET", url)
        where = f"the image at {origin(url)}"
        if 300 <= reply.status < 400:
            raise bad_answer(f"{where} is a redirect; redirects are not followed")
        if reply.status >= 500 or reply.status == 429:
            wait = retry_after(reply.headers)
            raise failure(where, reply.status, reply.text, wait, billed=True)
        if reply.status >= 400:
            raise bad_answer(f"{where} cannot be fetched: HTTP {reply.status}")
        return reply

    def _with_retries(self, get: Callable[[], T]) -> T:
        """Call `get`, and repeat it after transient faults."""

        def is_transient(error: BaseException) -> bool:
            return isinstance(error, EditorError) and not error.permanent

        def pause(state: tenacity.RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            wait = error.retry_after if isinstance(error, EditorError) else None
            return max(self.poll_every, wait or 0)

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(is_transient),
            stop=tenacity.stop_after_attempt(MAX_ATTEMPTS),
            wait=pause,
            sleep=self.http.sleep,
            reraise=True,
        )(get)


def meanings(
    *, refused: str = "", key: str = "", credit: str = "", busy: str = "", setup: str = ""
) -> Meanings:
    """Return the table for `raise_error`, from regular expressions on "code: message"."""
    table = (
        (refused, None),
        (key, Fault.KEY_REJECTED),
        (credit, Fault.OUT_OF_CREDIT),
        (busy, Fault.RATE_LIMITED),
        (setup, Fault.CONFIGURATION),
    )
    return tuple((re.compile(pattern), fault) for pattern, fault in table if pattern)


def origin(url: str) -> str:
    """Return scheme, host and port.

    The HTTP client uses the same parser, so it cannot read a different host in the same URL.
    """
    try:
        parts = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError):
        return "an invalid address"
    if parts.userinfo:
        return "an address with a user name"
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return f"{parts.scheme}://{parts.host}:{port}"


def is_https(url: str) -> bool:
    return origin(url).startswith("https://")


def is_host(url: str, domain: str) -> bool:
    """Return True for https URLs of the domain and its subdomains, on the default port."""
    scheme, _, rest = origin(url).partition("://")
    host, _, port = rest.rpartition(":")
    return scheme == "https" and port == "443" and (host == domain or host.endswith("." + domain))


def _host(url: str) -> str:
    try:
        return httpx2.URL(url).host.lower()
    except httpx2.InvalidURL:
        return ""


def _is_loopback(url: str) -> bool:
    try:
        host = httpx2.URL(url).host
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except (httpx2.InvalidURL, ValueError):
        return False
