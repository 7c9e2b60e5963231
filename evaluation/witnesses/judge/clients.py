"""Clients of judges: any OpenAI-compatible chat API, or Google's models."""

from __future__ import annotations

import base64
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from evaluation.editors.failures import (
    ErrorBody,
    bad_answer,
    failure,
    misconfigured,
    retry_after,
    server_error,
    shorten,
)
from evaluation.errors import EditorError, Fault
from evaluation.net.addresses import Rules
from evaluation.net.backend import trusted_authorities
from evaluation.net.client import HttpClient, Reply
from evaluation.packages import package_version
from evaluation.untrusted_json import bounded, parse_json

# Answers are short, so larger bodies are refused.
MAX_BODY = 2**20
# The longest reply that is requested from a judge.
REPLY_TOKENS = 600
# Larger token counts reported by a provider are ignored as implausible.
PLAUSIBLE_TOKENS = 1e8
# An upper bound of the tokens that providers count for one image.
IMAGE_TOKENS = 4000


@dataclass(frozen=True)
class JudgeReply:
    """A model's reply: a text or a refusal. `cost` is in USD; None if unknown."""

    text: str
    refused: bool = False
    cost: float | None = None
    seconds: float = 0.0


@dataclass(kw_only=True, eq=False)
class Client(ABC):
    """A vision-language model; `prices` are in USD per million input and output tokens."""

    model: str
    url: str = ""
    key: str = field(default="", repr=False)
    timeout: float = 60.0
    prices: tuple[float, float] = (0.0, 0.0)
    #: True if the address is untrusted and is called under the rules for submitted endpoints.
    untrusted: bool = False
    rules: Rules | None = None

    default_url: ClassVar[str]

    @abstractmethod
    def _ask(self, text: str, images: Sequence[bytes], schema: Mapping[str, Any]) -> JudgeReply:
        """Return the model's reply. Raises EditorError."""

    def missing(self) -> list[str]:
        """Return the missing requirements as messages."""
        return [] if self.model else ["JUDGE_MODEL is empty"]

    def ask(self, text: str, images: Sequence[bytes], schema: Mapping[str, Any]) -> JudgeReply:
        """Ask about PNG images, at temperature 0, and return the reply. Raises EditorError."""
        began = time.monotonic()
        with self.http.call(self.timeout):
            reply = self._ask(text, images, schema)
        cost = reply.cost
        if cost is None and any(self.prices):
            # The provider reports no tokens. Assume an upper bound, so that the budget holds.
            cost = self._cost(len(text.encode()) + IMAGE_TOKENS * len(images), REPLY_TOKENS)
        return JudgeReply(reply.text, reply.refused, cost, time.monotonic() - began)

    def close(self) -> None:
        self.http.close()

    @property
    def address(self) -> str:
        return (self.url or self.default_url).rstrip("/")

    @cached_property
    def http(self) -> HttpClient:
        rules = (self.rules or Rules()) if self.untrusted else None
        return HttpClient(rules, name="the judge", max_bytes=MAX_BODY)

    def _cost(self, tokens_in: Any, tokens_out: Any) -> float | None:
        """Return the cost of the reported tokens; None if tokens or prices are unknown."""
        counts = [bounded(tokens, PLAUSIBLE_TOKENS) for tokens in (tokens_in, tokens_out)]
        if None in counts or not any(self.prices):
            return None
        return sum(p * (n or 0) for p, n in zip(self.prices, counts, strict=True)) / 1e6


@dataclass(kw_only=True, eq=False)
class ChatClient(Client):
    """POST /chat/completions: vLLM, Ollama, OpenAI, DashScope, OpenRouter and others."""

    default_url: ClassVar[str] = "https://api.openai.com/v1"
    #: False after the server has rejected a schema for its answers.
    _takes_schema: bool = True

    def _ask(self, text: str, images: Sequence[bytes], schema: Mapping[str, Any]) -> JudgeReply:
        if self._takes_schema:
            try:
                return self._completed(text, images, schema)
            except EditorError as error:
                if error.fault is not Fault.BAD_REQUEST:
                    raise
            reply = self._completed(text, images, None)
            self._takes_schema = False  # the schema was the cause
            return reply
        return self._completed(text, images, None)

    def _completed(
        self, text: str, images: Sequence[bytes], schema: Mapping[str, Any] | None
    ) -> JudgeReply:
        shown = [
            {
                "type": "image_url",
                "image_url": {"url": f"data:image/png;base64,{base64.b64encode(png).decode()}"},
            }
            for png in images
        ]
        payload: dict[str, Any] = {
            "model": self.model,
            "temperature": 0,
            "max_tokens": REPLY_TOKENS,
            "messages": [{"role": "user", "content": [{"type": "text", "text": text}, *shown]}],
        }
        if schema:
            payload["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": schema},
            }
        return self._read(self._post(payload))

    def _post(self, payload: Mapping[str, Any]) -> Reply:
        url = f"{self.address}/chat/completions"
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return self.http.send("POST", url, headers=headers, json=payload)

    def _read(self, reply: Reply) -> JudgeReply:
        try:
            body = parse_json(reply.body)
        except ValueError:
            body = None
        if reply.status >= 300:
            detail = ErrorBody.read(body, reply.text).text.replace(self.key or "\0", "***")
            raise failure("the judge", reply.status, detail, retry_after(reply.headers))
        try:
            choice = body["choices"][0]
            message = choice["message"]
            content = message.get("content")
            if isinstance(content, list):  # the text in parts
                content = "".join(part.get("text") or "" for part in content)
            refusal = message.get("refusal") or choice.get("finish_reason") == "content_filter"
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise server_error("the judge's answer has no message") from error
        if not isinstance(content, str | None):
            raise server_error("the judge's message is not text")
        usage = body.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        cost = self._cost(usage.get("prompt_tokens"), usage.get("completion_tokens"))
        return JudgeReply(content or str(refusal or ""), bool(refusal), cost)


@dataclass(kw_only=True, eq=False)
class GeminiClient(Client):
    """Google's models, through the google-genai SDK."""

    default_url: ClassVar[str] = "https://generativelanguage.googleapis.com"

    def missing(self) -> list[str]:
        reasons = super().missing()
        if not package_version("google-genai"):
            reasons.append("install google-genai (pip install 'convergebench[providers]')")
        if self.untrusted:
            reasons.append("Google's client cannot call untrusted addresses")
        return reasons

    def _ask(self, text: str, images: Sequence[bytes], schema: Mapping[str, Any]) -> JudgeReply:
        from google.genai import errors, types

        shown = [types.Part.from_bytes(data=png, mime_type="image/png") for png in images]
        config = types.GenerateContentConfig(
            temperature=0,
            max_output_tokens=REPLY_TOKENS,
            response_mime_type="application/json",
            response_json_schema=dict(schema),
        )
        try:
            response = self._sdk.models.generate_content(
                model=self.model, contents=[text, *shown], config=config
            )
        except errors.APIError as error:
            detail = shorten(str(error)).replace(self.key or "\0", "***")
            raise failure("the judge", error.code or 500, detail) from None
        except (ValueError, TypeError, AttributeError) as error:
            raise bad_answer(f"the judge's answer cannot be read: {shorten(str(error))}") from error
        usage = response.usage_metadata
        cost = self._cost(
            usage and usage.prompt_token_count, usage and (usage.candidates_token_count or 0)
        )
        feedback = response.prompt_feedback
        reply_text = response.text or ""
        return JudgeReply(
            reply_text, not reply_text and bool(feedback and feedback.block_reason), cost
        )

    @cached_property
    def _sdk(self) -> Any:
        from google import genai
        from google.genai import types

        if not self.key:
            raise misconfigured("JUDGE_KEY is not set")
        return genai.Client(
            api_key=self.key,
            vertexai=False,
            http_options=types.HttpOptions(
                base_url=self.address,
                timeout=int(self.timeout * 1000),
                httpx_client=self.http.sdk_client,
                client_args={"verify": trusted_authorities()},
                async_client_args={"ssl": trusted_authorities()},
            ),
        )


CLIENTS: dict[str, type[Client]] = {"chat": ChatClient, "gemini": GeminiClient}
