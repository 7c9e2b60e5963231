"""Black Forest Labs' FLUX models: submit, poll, fetch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from evaluation.editors.base import Refused
from evaluation.editors.failures import ErrorBody, bad_answer, shorten
from evaluation.editors.payloads import to_base64
from evaluation.editors.providers.base import Edited, HostedEditor, Meanings, Request, meanings

REFUSALS = ("Request Moderated", "Content Moderated")
# All other statuses mean to wait: Pending, Reasoning, Generating.
ENDED = ("Ready", *REFUSALS, "Error", "Task not found")


@dataclass(kw_only=True, eq=False)
class BlackForestLabs(HostedEditor):
    """FLUX. Kontext takes a ratio, FLUX.2 a width and height: see the row's size rule."""

    image_field: str = "input_image"

    provider: ClassVar[str] = "Black Forest Labs"
    key_variables: ClassVar[tuple[str, ...]] = ("BFL_API_KEY",)
    default_url: ClassVar[str] = "https://api.bfl.ai/v1"
    domain: ClassVar[str] = "bfl.ai"
    meanings: ClassVar[Meanings] = meanings(
        # A bad key is answered with 422, like any invalid field.
        key=r"(?i)not authenticated|x-key|(invalid|missing|unknown) (api[ _-]?)?key",
        credit=r"(?i)insufficient credits",
    )

    def _authorisation(self, key: str) -> dict[str, str]:
        return {"x-key": key}

    def _call_model(self, request: Request) -> Edited:
        payload = {"output_format": "png", **self.inputs(request, to_base64(request.image))}
        submitted = self.post(self.model, request, payload)
        if not submitted.get("polling_url"):
            self.raise_error(200, ErrorBody.read(submitted, "no polling_url in the answer"))
        notes: dict[str, Any] = {"request_id": submitted.get("id")}
        if submitted.get("cost") is not None:
            notes["credits"] = submitted["cost"]
        answer = self.poll_until(ENDED, submitted["polling_url"], request)
        reason = ": ".join(
            filter(None, (answer["status"], shorten(str(answer.get("details") or ""))))
        )
        if answer["status"] in REFUSALS:
            raise Refused(reason, notes=notes)
        if answer["status"] != "Ready":
            raise bad_answer(f"{self.provider}: {reason}")
        result = answer.get("result") or {}
        notes |= self.stated_notes(result, request)
        return self.fetch_image(result.get("sample"), notes)
