"""The editor for submitted endpoints."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Collection
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from evaluation.editors.base import DEFAULT_SETTINGS, Answer, Editor, EditSettings
from evaluation.editors.contracts import Call, Contract, Settings, find_contract
from evaluation.editors.failures import bad_answer
from evaluation.editors.payloads import type_note
from evaluation.editors.sizes import TIERS, at_tier
from evaluation.images import MAX_BYTES, EncodedImage, ImageError
from evaluation.net.addresses import Rules
from evaluation.net.client import MAX_BODY_BYTES, HttpClient, SecurityEvent
from evaluation.net.large_answers import LARGE_ANSWERS, LARGE_PIXELS

#: 4096 x 4096 with a margin: the largest answers of editing models today.
MAX_ANSWER_PIXELS = 17_000_000


@dataclass(eq=False)
class Endpoint(Settings, Editor):
    """Edits by calling a submitted address, as the inherited Settings describe.

    `allow_local` is the development switch: it allows http, this machine and the local network.
    `deny` names our own hosts and addresses. `price` is in USD per edit. `group` is part of the
    idempotency keys. If it is the run's id, an edit that is repeated after a crash keeps its key,
    so that the endpoint can bill it once.
    """

    takes_temperature: ClassVar[bool] = True

    price: float | None = None
    max_bytes: int = MAX_BODY_BYTES
    max_pixels: int = MAX_ANSWER_PIXELS
    allow_local: bool = False
    ports: tuple[int, ...] = (443,)
    deny: tuple[str, ...] = ()
    group: str = field(default_factory=lambda: secrets.token_hex(8), repr=False)
    on_security_event: SecurityEvent | None = field(default=None, repr=False)
    client: HttpClient | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.protocol.check(self)
        self.http.parse(self.protocol.address(self))

    @cached_property
    def http(self) -> HttpClient:
        if self.client is not None:
            return self.client
        rules = Rules(self.allow_local, frozenset(self.ports), tuple(self.deny))
        return HttpClient(rules, on_security_event=self.on_security_event, max_bytes=self.max_bytes)

    @cached_property
    def protocol(self) -> Contract:
        return find_contract(self.contract)

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        """Return the edited image. The request, its polls and fetches share one deadline."""
        return self.edit_with(image, prompt, seed, DEFAULT_SETTINGS)

    def edit_with(
        self, image: EncodedImage, prompt: str, seed: int | None, settings: EditSettings
    ) -> Answer:
        with LARGE_ANSWERS.edit():
            return self._edit(image, prompt, seed, settings)

    @property
    def tiers(self) -> Collection[str]:
        return tuple(TIERS) if self.size == "input" else ()

    def _edit(
        self, image: EncodedImage, prompt: str, seed: int | None, settings: EditSettings
    ) -> Answer:
        start = time.monotonic()
        call = Call(self.http, self)
        size = at_tier(image.size, settings.size) if settings.size else image.size
        request = self.protocol.request(self._with_temperature(settings), prompt, seed, size)
        reply = call.post(request, image.png(), self._idempotency_key(image, prompt, seed))
        data = self.protocol.image(call, reply)
        seconds = time.monotonic() - start
        limits = {"max_bytes": min(self.max_bytes, MAX_BYTES), "max_pixels": self.max_pixels}
        try:
            head = EncodedImage.from_head(data, **limits)
            if head.width * head.height <= LARGE_PIXELS:
                answered = EncodedImage.from_bytes(data, **limits)
            else:
                LARGE_ANSWERS.wait(self.timeout)
                # Keep no decoded copy: many answers may be in memory at once.
                answered = replace(EncodedImage.from_bytes(data, **limits))
        except ImageError as error:
            raise bad_answer(str(error)) from error
        except TimeoutError:
            raise bad_answer(
                "too many large images at once: other answers are still being processed"
            ) from None
        notes = {"status": reply.status, **call.notes, **type_note(call.stated_type, answered)}
        return Answer(answered, seconds, self.price, notes)

    def _with_temperature(self, settings: EditSettings) -> Settings:
        """Return the endpoint's settings with the temperature of this edit."""
        if settings.temperature is None:
            return self
        called = copy(self)
        called.extra = {**self.extra, "temperature": settings.temperature}
        return called

    def _idempotency_key(self, image: EncodedImage, prompt: str, seed: int | None) -> str:
        """Return a key that all attempts at this edit of the run share."""
        text = "\0".join((self.group, self.url, self.model, image.sha256, prompt, str(seed)))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def describe(self) -> dict[str, Any]:
        """Describe the calls for a public record.

        Key, address and extra parameters are left out: each may contain a secret of the submitter.
        """
        return {
            "contract": self.contract,
            "model": self.model,
            "has_extra": bool(self.extra),
            "send_seed": self.send_seed,
            "send_response_format": self.send_response_format,
            "size": self.size,
            "image_field": self.image_field,
            "prompt_field": self.prompt_field,
            "timeout": self.timeout,
        }

    def close(self) -> None:
        self.http.close()
