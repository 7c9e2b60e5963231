"""Models on fal, called through its queue.

We use raw HTTP, because fal's own client retries ten times and sends JPEG.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from evaluation.editors.base import Refused
from evaluation.editors.failures import ErrorBody, bad_answer
from evaluation.editors.payloads import data_uri
from evaluation.editors.providers.base import Edited, HostedEditor, Meanings, Request, meanings


@dataclass(kw_only=True, eq=False)
class Fal(HostedEditor):
    """A model in fal's queue."""

    image_field: str = "image_urls"
    image_list: bool = True
    size_field: str = "image_size"

    provider: ClassVar[str] = "fal"
    key_variables: ClassVar[tuple[str, ...]] = ("FAL_KEY",)
    default_url: ClassVar[str] = "https://queue.fal.run"
    domain: ClassVar[str] = "fal.run"
    meanings: ClassVar[Meanings] = meanings(
        refused=r"content_policy_violation|no_media_generated",
        credit=r"(?i)exhausted balance|user is locked|insufficient (balance|credits)",
    )

    def _authorisation(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Key {key}"}

    def _call_model(self, request: Request) -> Edited:
        queued = self.post(self.model, request, self.inputs(request, data_uri(request.image)))
        if not queued.get("status_url") or not queued.get("response_url"):
            self.raise_error(200, ErrorBody.read(queued, "no status_url in the answer"))
        notes: dict[str, Any] = {"request_id": queued.get("request_id")}
        # All other statuses mean to wait: IN_QUEUE, IN_PROGRESS.
        self.poll_until(("COMPLETED",), queued["status_url"], request)
        result = self.poll(queued["response_url"], request)
        if result.get("detail"):
            self.raise_error(200, ErrorBody.read(result))
        notes |= self.stated_notes(result, request)
        if any(result.get("has_nsfw_concepts") or ()):
            raise Refused("has_nsfw_concepts: the image was blacked out", notes=notes)
        return self.fetch_image(_first_url(result), notes)

    def _parse_error(self, body: Any, text: str) -> ErrorBody:
        error = super()._parse_error(body, text)
        if not isinstance(body, dict):
            return error
        details = body.get("detail")
        types = [body.get("error_type")]
        types += [d.get("type") for d in details or [] if isinstance(d, dict)]
        return ErrorBody(" ".join(str(kind) for kind in types if kind), error.message)

    def format_size(self, width: int, height: int) -> dict[str, int]:
        return {"width": width, "height": height}


def _first_url(result: Mapping[str, Any]) -> Any:
    images = result.get("images") or [result.get("image")]
    try:
        return images[0]["url"]
    except (KeyError, IndexError, TypeError):
        raise bad_answer("fal answered without an image") from None
