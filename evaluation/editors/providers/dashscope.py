"""Alibaba's Qwen image models on DashScope (Model Studio)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from evaluation.editors.failures import ErrorBody, bad_answer
from evaluation.editors.payloads import data_uri
from evaluation.editors.providers.base import Edited, HostedEditor, Meanings, Request, meanings

PATH = "services/aigc/multimodal-generation/generation"


@dataclass(kw_only=True, eq=False)
class DashScope(HostedEditor):
    """Qwen. A key is valid in one region; DASHSCOPE_HTTP_BASE_URL selects another."""

    size_field: str = "size"

    provider: ClassVar[str] = "Alibaba Cloud"
    key_variables: ClassVar[tuple[str, ...]] = ("DASHSCOPE_API_KEY",)
    default_url: ClassVar[str] = "https://dashscope-intl.aliyuncs.com/api/v1"
    url_variable: ClassVar[str] = "DASHSCOPE_HTTP_BASE_URL"
    meanings: ClassVar[Meanings] = meanings(
        refused=r"DataInspectionFailed|data_inspection_failed|IPInfringementSuspect",
        key=r"InvalidApiKey|invalid_api_key",
        credit=r"Arrearage|FreeTierOnly|PrepaidBillOverdue|PostpaidBillOverdue",
        busy=r"Throttling",
        setup=r"ModelNotFound|Model\.AccessDenied|AccessDenied\.Unpurchased|ModelNotExist",
    )

    def _call_model(self, request: Request) -> Edited:
        answer = self.post(PATH, request, self._payload(request))
        if answer.get("code"):
            self.raise_error(200, ErrorBody.read(answer))
        notes = {"request_id": answer.get("request_id"), "usage": answer.get("usage")}
        try:
            content = answer["output"]["choices"][0]["message"]["content"]
            url = next(part["image"] for part in content if part.get("image"))
        except (KeyError, IndexError, TypeError, AttributeError, StopIteration):
            raise bad_answer(f"{self.provider} answered without an image") from None
        return self.fetch_image(url, notes)

    def _payload(self, request: Request) -> dict[str, Any]:
        parameters: dict[str, Any] = {
            "n": 1,
            "prompt_extend": False,
            "watermark": False,
            "negative_prompt": " ",
        }
        if request.seed is not None:
            parameters["seed"] = request.seed
        content = [{"image": data_uri(request.image)}, {"text": request.prompt}]
        return {
            "model": self.model,
            "input": {"messages": [{"role": "user", "content": content}]},
            "parameters": parameters | self._size_inputs(request) | dict(self.params),
        }

    def format_size(self, width: int, height: int) -> str:
        return f"{width}*{height}"
