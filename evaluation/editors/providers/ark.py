"""ByteDance's Seedream models on Ark (BytePlus ModelArk, Volcano Engine)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evaluation.editors.failures import ErrorBody, bad_answer
from evaluation.editors.payloads import data_uri, from_base64
from evaluation.editors.providers.base import (
    Edited,
    HostedEditor,
    Meanings,
    Request,
    is_host,
    meanings,
)


@dataclass(kw_only=True, eq=False)
class Ark(HostedEditor):
    """Seedream. Most models answer with JPEG, and add a watermark by default."""

    size_field: str = "size"

    provider: ClassVar[str] = "BytePlus"
    key_variables: ClassVar[tuple[str, ...]] = ("ARK_API_KEY",)
    default_url: ClassVar[str] = "https://ark.ap-southeast.bytepluses.com/api/v3"
    other_hosts: ClassVar[tuple[str, ...]] = ("ark.cn-beijing.volces.com",)
    meanings: ClassVar[Meanings] = meanings(
        refused=r"SensitiveContentDetected|RiskDetection|PolicyViolation",
        credit=r"AccountOverdue|SetLimitExceeded|InsufficientBalance",
        busy=r"RateLimitExceeded|QuotaExceeded|ServerOverloaded|TooManyRequests",
        setup=r"ModelNotOpen|InvalidEndpointOrModel",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_host(self.url, "volces.com"):  # whose keys do not work at BytePlus
            self.provider = "Volcano Engine"  # type: ignore[misc]

    def _call_model(self, request: Request) -> Edited:
        payload = {"model": self.model, "response_format": "b64_json", "watermark": False}
        payload |= self.inputs(request, data_uri(request.image))
        answer = self.post("images/generations", request, payload)
        data = answer.get("data")
        items = [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []
        for item in items:
            if item.get("error"):
                self.raise_error(200, ErrorBody.read(item))
        if not items:
            raise bad_answer(f"{self.provider} answered without an image")
        notes = {
            "request_id": answer.get("request_id"),
            "usage": answer.get("usage"),
            "stated_size": items[0].get("size"),
        }
        if items[0].get("b64_json"):
            return Edited(from_base64(items[0]["b64_json"]), notes)
        return self.fetch_image(items[0].get("url"), notes)
