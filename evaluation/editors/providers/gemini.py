"""Google's Gemini image models, by generateContent."""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from evaluation.editors.base import Refused
from evaluation.editors.failures import ErrorBody, bad_answer, retry_after, server_error, shorten
from evaluation.editors.payloads import from_base64
from evaluation.editors.providers.base import Edited, HostedEditor, Meanings, Request, meanings
from evaluation.editors.sizes import TIERS
from evaluation.errors import EditorError
from evaluation.images import Picture
from evaluation.net.client import Reply

#: An inline request may have 20 MB, three quarters of it after base64; the oldest turns are dropped
#: first.
MAX_HISTORY_BYTES = 12 * 2**20
#: Signature that Google accepts for a re-encoded image in a model's turn.
NO_SIGNATURE = base64.urlsafe_b64encode(b"skip_thought_signature_validator").decode()
REFUSALS = {
    f"{prefix}{reason}"
    for prefix in ("", "IMAGE_")
    for reason in ("SAFETY", "PROHIBITED_CONTENT", "RECITATION")
} | {"BLOCKLIST", "SPII", "IMAGE_OTHER", "NO_IMAGE"}


@dataclass(kw_only=True, eq=False)
class Gemini(HostedEditor):
    """Asks for a ratio and a tier of size; PNG cannot be asked for, so the MIME is noted."""

    image_sizes: Sequence[str] = ()  # the tiers to choose from; empty = the model has but one
    thoughts: bool = False  # True if the model can return a summary of its reasoning

    provider: ClassVar[str] = "Google"
    key_variables: ClassVar[tuple[str, ...]] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    default_url: ClassVar[str] = "https://generativelanguage.googleapis.com"
    url_variable: ClassVar[str] = "GOOGLE_GEMINI_BASE_URL"
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

    def _authorisation(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def _ask(self, request: Request) -> Edited:
        payload = {"contents": _contents(request), "generationConfig": self._config(request)}
        answer = self.post(f"v1/models/{self.model}:generateContent", request, payload)
        try:
            return self._read(answer)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise server_error(f"Google's answer cannot be read: {error!r:.200}") from error

    def _config(self, request: Request) -> dict[str, Any]:
        config: dict[str, Any] = {
            "responseModalities": ["IMAGE"],
            "imageConfig": self._image_config(request),
            **self.params,
        }
        if request.seed is not None:
            config["seed"] = request.seed
        if request.settings.temperature is not None:
            config["temperature"] = request.settings.temperature
        if self.thoughts:
            config["thinkingConfig"] = {"include_thoughts": True}
        return config

    def _image_config(self, request: Request) -> dict[str, Any]:
        config: dict[str, Any] = {}
        picture = request.picture
        if self.size_rule:
            config["aspectRatio"] = self.size_rule.nearest_ratio(picture.size)
        if request.settings.size:
            config["imageSize"] = request.settings.size
        elif self.image_sizes:
            side = math.log(picture.width * picture.height) / 2
            config["imageSize"] = min(
                self.image_sizes, key=lambda tier: abs(math.log(TIERS[tier]) - side)
            )
        return config

    def _read(self, answer: Mapping[str, Any]) -> Edited:
        notes: dict[str, Any] = {
            "request_id": answer.get("responseId") or answer.get("request_id"),
            "answered_by": answer.get("modelVersion"),
            "usage": answer.get("usageMetadata"),
        }
        feedback = answer.get("promptFeedback") or {}
        if reason := feedback.get("blockReason"):
            raise Refused(_because(reason, feedback.get("blockReasonMessage")), notes=notes)
        if not answer.get("candidates"):
            raise bad_answer("Google answered without a candidate and without a reason")
        candidate = answer["candidates"][0]
        parts = (candidate.get("content") or {}).get("parts") or []
        # Thought parts may hold pictures too: drafts, not the answer.
        answers = [part for part in parts if not part.get("thought")]
        if thoughts := _text([part for part in parts if part.get("thought")]):
            notes["reasoning"] = thoughts
        text = _text(answers)
        pictures = [part["inlineData"] for part in answers if part.get("inlineData")]
        if not pictures:
            raise _no_picture(candidate, text, notes)
        if text:
            notes["text"] = shorten(text)
        stated = str(pictures[-1].get("mimeType") or "")
        # Its base64 may be either alphabet's.
        data = pictures[-1].get("data", "").translate(str.maketrans("-_", "+/"))
        return Edited(from_base64(data), notes | {"stated_mime": stated}, stated_type=stated)

    def _error(self, body: Any, text: str) -> ErrorBody:
        error = super()._error(body, text)
        reasons = (detail.get("reason") for detail in _details(body))
        return ErrorBody(" ".join(filter(None, (error.code, *reasons))), error.message)

    def _wait(self, reply: Reply, body: Any) -> float | None:
        for detail in _details(body):
            delay = detail.get("retryDelay")
            if isinstance(delay, str) and delay.endswith("s"):
                return retry_after({"retry-after": delay.removesuffix("s")})
        return super()._wait(reply, body)


def _contents(request: Request) -> list[dict[str, Any]]:
    """Return the image with its prompt, or the conversation with the prompt added.

    A chat has every image once: the user's if it is new, else the model's last answer. They are
    sent re-encoded, like any image, so without the signatures of the model's own bytes.
    """
    recent: list[Any] = []
    size = 0
    for turn in reversed(request.settings.history or ()):
        size += sum(len(p.png()) for p in (turn.sent, turn.answer) if p)
        if size > MAX_HISTORY_BYTES:
            break
        recent.append(turn)
    contents = []
    for turn in reversed(recent):
        contents.append(_user(turn.sent, turn.prompt))
        signed = {**_image(turn.answer), "thoughtSignature": NO_SIGNATURE}
        contents.append({"role": "model", "parts": [signed]})
    # The model has its last answer; any other image is sent.
    known = recent and recent[0].answer.png() == request.picture.png()
    return [*contents, _user(None if known else request.picture, request.prompt)]


def _user(picture: Picture | None, prompt: str) -> dict[str, Any]:
    shown = [_image(picture)] if picture else []
    return {"role": "user", "parts": [*shown, {"text": prompt}]}


def _image(picture: Picture) -> dict[str, Any]:
    data = base64.urlsafe_b64encode(picture.png()).decode()
    return {"inlineData": {"data": data, "mime_type": "image/png"}}


def _text(parts: Sequence[Mapping[str, Any]]) -> str:
    return " ".join(part["text"] for part in parts if part.get("text"))


def _no_picture(
    candidate: Mapping[str, Any], text: str, notes: Mapping[str, Any]
) -> Refused | EditorError:
    reason = str(candidate.get("finishReason") or "")
    if reason in REFUSALS or (reason == "STOP" and text):
        return Refused(_because(reason, candidate.get("finishMessage") or text), notes=notes)
    return bad_answer(_because(f"Google gave no picture ({reason or 'no reason'})", text))


def _details(body: Any) -> list[dict[str, Any]]:
    """Return the details of the error: google.rpc.ErrorInfo, RetryInfo and the like."""
    try:
        return [detail for detail in body["error"]["details"] if isinstance(detail, dict)]
    except (KeyError, TypeError):
        return []


def _because(reason: str, text: str | None) -> str:
    return shorten(": ".join(part for part in (reason, text) if part))
