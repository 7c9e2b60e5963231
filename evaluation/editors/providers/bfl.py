"""Black Forest Labs' FLUX models: submit, poll, fetch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from evaluation.editors.base import Refused
from evaluation.editors.failures import ErrorBody, bad_answer, shorten
from evaluation.editors.payloads import to_base64
from evaluation.editors.providers.base import Edited, HostedEditor, Meanings, Request, meanings

REFUSALS = ("Request Moderated", "Content Moderated")


@dataclass(kw_only=True, eq=False)
class BlackForestLabs(HostedEditor):
    """Kontext takes a ratio, FLUX.2 width and height; the row's size rule says which."""

    provider: ClassVar[str] = "Black Forest Labs"
    key_variables: ClassVar[tuple[str, ...]] = ("BFL_API_KEY",)
    default_url: ClassVar[str] = "https://api.bfl.ai/v1"
    domain: ClassVar[str] = "bfl.ai"
    meanings: ClassVar[Meanings] = meanings(
        # A bad key is answered with 422 like any other bad field.
        key=r"(?i)not authenticated|x-key|(invalid|missing|unknown) (api[ _-]?)?key",
        credit=r"(?i)insufficient credits",
    )

    def _authorisation(self, key: str) -> dict[str, str]:
        return {"x-key": key}

    def _ask(self, request: Request) -> Edited:
        submitted = self.post(self.model, request, self._payload(request))
        if not submitted.get("polling_url"):
            self.raise_error(200, ErrorBody.read(submitted, "no polling_url in the answer"))
        notes: dict[str, Any] = {"request_id": submitted.get("id")}
        if submitted.get("cost") is not None:
            notes["credits"] = submitted["cost"]
        result = self._result(submitted["polling_url"], request, notes)
        for name in ("seed", "duration"):
            if result.get(name) is not None:
                notes[f"stated_{name}"] = result[name]
        if (used := result.get("prompt")) and used != request.prompt:
            notes["revised_prompt"] = used
        return self.fetched(result.get("sample"), notes)

    def _payload(self, request: Request) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "prompt": request.prompt,
            "input_image": to_base64(request.picture),
            "output_format": "png",
        }
        if request.seed is not None:
            payload["seed"] = request.seed
        if self.size_rule and self.size_rule.ratios:
            payload["aspect_ratio"] = self.size_rule.nearest_ratio(request.picture.size)
        elif self.size_rule:
            payload["width"], payload["height"] = self.size_rule.nearest(request.wanted)
        return payload | dict(self.params)

    def _result(self, url: str, request: Request, notes: dict[str, Any]) -> dict[str, Any]:
        while True:
            answer = self.poll(url, request)
            status = answer.get("status")
            details = shorten(str(answer.get("details") or ""))
            if status == "Ready":
                return answer.get("result") or {}
            if status in REFUSALS:
                raise Refused(": ".join(filter(None, (status, details))), notes=notes)
            if status in ("Error", "Task not found"):
                raise bad_answer(": ".join(filter(None, (f"{self.provider}: {status}", details))))
            self.wait()  # Pending, Reasoning, Generating, or a word that is new
