"""Google's Gemini image models, called through the google-genai SDK."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from evaluation.editors.base import Refused
from evaluation.editors.failures import (
    ErrorBody,
    bad_answer,
    misconfigured,
    retry_after,
    server_error,
    shorten,
)
from evaluation.editors.providers.base import Edited, HostedEditor, Meanings, Request, meanings
from evaluation.editors.sizes import TIERS
from evaluation.errors import EditorError
from evaluation.images import EncodedImage
from evaluation.net.backend import trusted_authorities
from evaluation.net.client import Reply

#: A request may have 20 MB, which is 15 MB before base64. The oldest turns of a larger history are
#: left out.
MAX_HISTORY_BYTES = 12 * 2**20
#: Signature that Google accepts for a re-encoded image in a model's turn.
NO_SIGNATURE = b"skip_thought_signature_validator"
REFUSALS = {
    f"{prefix}{reason}"
    for prefix in ("", "IMAGE_")
    for reason in ("SAFETY", "PROHIBITED_CONTENT", "RECITATION")
} | {"BLOCKLIST", "SPII", "IMAGE_OTHER", "NO_IMAGE"}


@dataclass(kw_only=True, eq=False)
class Gemini(HostedEditor):
    """Gemini. It takes a ratio and a size tier; the file format cannot be chosen."""

    image_sizes: Sequence[str] = ()  # the tiers to choose from; empty if the model has only one
    thoughts: bool = False  # the model can return a summary of its reasoning

    provider: ClassVar[str] = "Google"
    key_variables: ClassVar[tuple[str, ...]] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    default_url: ClassVar[str] = "https://generativelanguage.googleapis.com"
    url_variable: ClassVar[str] = "GOOGLE_GEMINI_BASE_URL"
    package: ClassVar[str] = "google-genai"
    takes_temperature: ClassVar[bool] = True
    takes_history: ClassVar[bool] = True
    meanings: ClassVar[Meanings] = meanings(
        key=r"API_KEY_INVALID|API key (not valid|expired|not found)",
        credit=r"credits are depleted|BILLING_DISABLED",
        setup=r"FAILED_PRECONDITION|User location is not supported|(?i:thinking)",
    )

    @property
    def tiers(self) -> Collection[str]:
        return self.image_sizes

    @cached_property
    def _sdk(self) -> Any:
        from google import genai
        from google.genai import types

        return genai.Client(
            api_key=self._key(),
            vertexai=False,  # regardless of GOOGLE_GENAI_USE_VERTEXAI
            http_options=types.HttpOptions(
                base_url=self.url,
                timeout=math.ceil(self.timeout * 1000),
                httpx_client=self.sdk_client(),
                # These clients are unused, but would load the certificate authorities again.
                client_args={"verify": trusted_authorities()},
                async_client_args={"ssl": trusted_authorities()},
            ),
        )

    def _call_model(self, request: Request) -> Edited:
        from google.genai import errors

        config, contents = self._config(request), _contents(request)
        try:
            response = self._sdk.models.generate_content(
                model=self.model, contents=contents, config=config
            )
        # The SDK raises these for an answer of an unknown shape.
        except (errors.UnknownApiResponseError, ValueError, TypeError, AttributeError) as error:
            raise server_error(f"Google's answer cannot be read: {shorten(str(error))}") from error
        return self._read(response)

    def _config(self, request: Request) -> Any:
        from google.genai import types

        options: dict[str, Any] = {
            "response_modalities": ["IMAGE"],
            "image_config": types.ImageConfig(**self._image_config(request)),
            "seed": request.seed,
            **self.params,
        }
        if request.settings.temperature is not None:
            options["temperature"] = request.settings.temperature
        if self.thoughts:
            options["thinking_config"] = types.ThinkingConfig(include_thoughts=True)
        try:
            return types.GenerateContentConfig(**options)
        except ValueError as error:
            raise misconfigured(
                f"the model's params are not valid: {shorten(str(error))}"
            ) from error

    def _image_config(self, request: Request) -> dict[str, Any]:
        config: dict[str, Any] = {}
        image = request.image
        if self.size_rule:
            config["aspect_ratio"] = self.size_rule.nearest_ratio(image.size)
        if request.settings.size:
            config["image_size"] = request.settings.size
        elif self.image_sizes:
            side = math.log(image.width * image.height) / 2
            config["image_size"] = min(
                self.image_sizes, key=lambda tier: abs(math.log(TIERS[tier]) - side)
            )
        return config

    def _read(self, response: Any) -> Edited:
        notes = _notes(response)
        feedback = response.prompt_feedback
        if feedback and feedback.block_reason:
            raise Refused(
                _reason_text(feedback.block_reason, feedback.block_reason_message), notes=notes
            )
        if not response.candidates:
            raise bad_answer("Google's answer has no candidate and states no reason")
        candidate = response.candidates[0]
        parts = (candidate.content and candidate.content.parts) or []
        # Thoughts may contain images too, but these are drafts.
        answers = [part for part in parts if not part.thought]
        if thoughts := _text(part for part in parts if part.thought):
            notes["reasoning"] = thoughts
        text = _text(answers)
        images = [p.inline_data for p in answers if p.inline_data and p.inline_data.data]
        if not images:
            raise _no_image(candidate, text, notes)
        if text:
            notes["text"] = shorten(text)
        notes["stated_mime"] = images[-1].mime_type
        return Edited(images[-1].data, notes, stated_type=images[-1].mime_type or "")

    def _parse_error(self, body: Any, text: str) -> ErrorBody:
        error = super()._parse_error(body, text)
        reasons = (detail.get("reason") for detail in _details(body))
        return ErrorBody(" ".join(filter(None, (error.code, *reasons))), error.message)

    def _seconds_to_wait(self, reply: Reply, body: Any) -> float | None:
        for detail in _details(body):
            delay = detail.get("retryDelay")
            if isinstance(delay, str) and delay.endswith("s"):
                return retry_after({"retry-after": delay.removesuffix("s")})
        return super()._seconds_to_wait(reply, body)


def _contents(request: Request) -> list[Any]:
    """Return the turns of the conversation, if there is one, then the image and prompt.

    An image that was the model's last answer is not sent again. All images are re-encoded, so the
    signatures of the model's own files are no longer valid.
    """
    from google.genai import types

    def png(image: EncodedImage, **about: Any) -> Any:
        part = types.Part.from_bytes(data=image.png(), mime_type="image/png")
        return part.model_copy(update=about)

    history = request.settings.history
    if history is None:
        return [png(request.image), request.prompt]
    recent, size = [], 0
    for turn in reversed(history):
        size += sum(len(p.png()) for p in (turn.sent, turn.answer) if p)
        if size > MAX_HISTORY_BYTES:
            break
        recent.append(turn)
    contents = []
    for turn in reversed(recent):
        images = [png(turn.sent)] if turn.sent else []
        contents.append(types.UserContent([*images, turn.prompt]))
        contents.append(types.ModelContent([png(turn.answer, thought_signature=NO_SIGNATURE)]))
    # The model already has its own last answer; any other image is sent.
    last = recent[0].answer.png() if recent else b""
    images = [] if request.image.png() == last else [png(request.image)]
    return [*contents, types.UserContent([*images, request.prompt])]


def _notes(response: Any) -> dict[str, Any]:
    headers = getattr(response.sdk_http_response, "headers", None) or {}
    notes: dict[str, Any] = {"request_id": response.response_id or headers.get("x-request-id")}
    if response.model_version:
        notes["answered_by"] = response.model_version
    if response.usage_metadata:
        notes["usage"] = response.usage_metadata.model_dump(mode="json", exclude_none=True)
    return notes


def _text(parts: Iterable[Any]) -> str:
    return " ".join(part.text for part in parts if part.text)


def _no_image(candidate: Any, text: str, notes: Mapping[str, Any]) -> Refused | EditorError:
    reason = _name(candidate.finish_reason)
    if reason in REFUSALS or (reason == "STOP" and text):
        return Refused(_reason_text(reason, candidate.finish_message or text), notes=notes)
    return bad_answer(_reason_text(f"Google returned no image ({reason or 'no reason'})", text))


def _details(body: Any) -> list[dict[str, Any]]:
    """Return the details of an error, such as google.rpc.ErrorInfo and RetryInfo."""
    try:
        return [detail for detail in body["error"]["details"] if isinstance(detail, dict)]
    except (KeyError, TypeError):
        return []


def _name(reason: Any) -> str:
    """Return the value of an enum, or the text of an unknown value."""
    return str(getattr(reason, "value", reason) or "")


def _reason_text(reason: Any, text: str | None) -> str:
    return shorten(": ".join(part for part in (_name(reason), text) if part))
