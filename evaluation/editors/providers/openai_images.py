"""OpenAI's image models, by POST /images/edits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from evaluation.editors.payloads import from_base64
from evaluation.editors.providers.base import Edited, HostedEditor, Meanings, Request, meanings


@dataclass(kw_only=True, eq=False)
class OpenAIImages(HostedEditor):
    """Takes no seed: the same edit asked twice gives two pictures."""

    size_field: str = "size"
    token_prices: Mapping[str, float] | None = (
        None  # USD per million: text_input, image_input, output
    )

    provider: ClassVar[str] = "OpenAI"
    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    default_url: ClassVar[str] = "https://api.openai.com/v1"
    url_variable: ClassVar[str] = "OPENAI_BASE_URL"
    meanings: ClassVar[Meanings] = meanings(
        refused=r"moderation_blocked|content_policy_violation|safety_violations",
        key=r"invalid_api_key|must be verified to use",
        credit=r"insufficient_quota|billing_(hard_limit|not_active)",
        setup=r"model_not_found|country_not_supported|unsupported_country",
    )

    def _ask(self, request: Request) -> Edited:
        fields = {
            "model": self.model,
            "prompt": request.prompt,
            "n": "1",
            "output_format": "png",
            **self.params,
            **self._size(request),
        }
        files = {"image": ("picture.png", request.picture.png(), "image/png")}
        answer = self.upload("images/edits", request, files, fields)
        usage = answer.get("usage")
        usage = usage if isinstance(usage, dict) else None
        notes: dict[str, Any] = {"request_id": answer.get("request_id"), "usage": usage}
        for name in ("size", "quality", "output_format"):
            notes[f"stated_{name}"] = answer.get(name)
        data = answer.get("data")
        item = data[0] if isinstance(data, list) and data else None
        item = item if isinstance(item, dict) else {}
        if revised := item.get("revised_prompt"):
            notes["revised_prompt"] = revised
        return Edited(from_base64(item.get("b64_json")), notes, self._cost(usage))

    def _cost(self, usage: Mapping[str, Any] | None) -> float | None:
        """Return the cost of the tokens; if unknown None, and the row's estimate holds."""
        if not usage or not self.token_prices:
            return None
        details = usage.get("input_tokens_details") or {}
        tokens = {
            "text_input": details.get("text_tokens"),
            "image_input": details.get("image_tokens"),
            "output": usage.get("output_tokens"),
        }
        cost = 0.0
        for name, count in tokens.items():
            if count is None:
                return None
            cost += self.token_prices[name] * count / 1e6
        return cost
