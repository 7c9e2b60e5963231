"""OpenAI's image models, called through the openai SDK (POST /images/edits)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from evaluation.editors.failures import misconfigured
from evaluation.editors.payloads import from_base64
from evaluation.editors.providers.base import Edited, HostedEditor, Meanings, Request, meanings


@dataclass(kw_only=True, eq=False)
class OpenAIImages(HostedEditor):
    """OpenAI's image models. They take no seed, so a repeated edit gives another image."""

    size_field: str = "size"
    token_prices: Mapping[str, float] | None = (
        None  # USD per million: text_input, image_input, output
    )

    provider: ClassVar[str] = "OpenAI"
    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    default_url: ClassVar[str] = "https://api.openai.com/v1"
    url_variable: ClassVar[str] = "OPENAI_BASE_URL"
    package: ClassVar[str] = "openai"
    meanings: ClassVar[Meanings] = meanings(
        refused=r"moderation_blocked|content_policy_violation|safety_violations",
        key=r"invalid_api_key|must be verified to use",
        credit=r"insufficient_quota|billing_(hard_limit|not_active)",
        setup=r"model_not_found|country_not_supported|unsupported_country",
    )

    @cached_property
    def _sdk(self) -> Any:
        from openai import OpenAI

        return OpenAI(
            api_key=self._key(),
            base_url=self.url,
            timeout=self.timeout,
            max_retries=0,
            http_client=self.sdk_client(),
        )

    def _call_model(self, request: Request) -> Edited:
        import openai

        options = {"output_format": "png", **self.params, **self._size_inputs(request)}
        try:
            response = self._sdk.images.edit(
                model=self.model,
                image=("image.png", request.image.png(), "image/png"),
                prompt=request.prompt,
                n=1,
                **options,
            )
        except openai.APIConnectionError as error:
            # The SDK wraps the errors that our own client raises.
            wrapped = error.__cause__ or error
        except TypeError as error:
            raise misconfigured(f"the model's params are not valid: {error}") from error
        else:
            return self._read(response)
        raise wrapped

    def _read(self, response: Any) -> Edited:
        notes: dict[str, Any] = {"request_id": response._request_id}
        for name in ("size", "quality", "output_format"):
            notes[f"stated_{name}"] = getattr(response, name, None)
        usage = response.usage.model_dump(mode="json") if response.usage else None
        if usage:
            notes["usage"] = usage
        items = response.data if isinstance(response.data, list) else []
        item = items[0] if items else None
        if revised := getattr(item, "revised_prompt", None):
            notes["revised_prompt"] = revised
        return Edited(from_base64(getattr(item, "b64_json", None)), notes, self._cost(usage))

    def _cost(self, usage: Mapping[str, Any] | None) -> float | None:
        """Return the cost of the tokens; None if unknown, so that the row's price is used."""
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
