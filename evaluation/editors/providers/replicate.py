"""Models on Replicate: the first request waits a while for the prediction, then we poll."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from evaluation.editors.failures import ErrorBody, bad_answer, retry_after
from evaluation.editors.payloads import data_uri
from evaluation.editors.providers.base import Edited, HostedEditor, Meanings, Request, meanings
from evaluation.net.client import Reply, multipart

# Replicate requires an upload above this size.
INLINE_BYTES = 256 * 1024
ENDED = ("succeeded", "failed", "canceled", "aborted")


@dataclass(kw_only=True, eq=False)
class Replicate(HostedEditor):
    """A model on Replicate; `model` is owner/name."""

    image_field: str = "input_images"
    image_list: bool = True

    provider: ClassVar[str] = "Replicate"
    key_variables: ClassVar[tuple[str, ...]] = ("REPLICATE_API_TOKEN",)
    default_url: ClassVar[str] = "https://api.replicate.com"
    url_variable: ClassVar[str] = "REPLICATE_BASE_URL"
    domain: ClassVar[str] = "replicate.com"
    meanings: ClassVar[Meanings] = meanings(
        refused=r"(?i)nsfw|flagged as sensitive|\bE005\b|content polic|safety (filter|system|check)",
        credit=r"(?i)insufficient credit|billing required",
    )

    def _call_model(self, request: Request) -> Edited:
        prediction = self.post(
            f"v1/models/{self.model}/predictions",
            request,
            {"input": self.inputs(request, self._address(request))},
            Prefer="wait",
        )
        url = (prediction.get("urls") or {}).get("get")
        notes: dict[str, Any] = {"request_id": prediction.get("id")}
        # All other statuses mean to wait: starting, processing, or an undocumented one.
        if prediction.get("status") not in ENDED:
            if not url:
                self.raise_error(
                    200, ErrorBody.read(prediction, "the answer has no address to poll")
                )
            prediction = self.poll_until(ENDED, url, request)
        if prediction["status"] != "succeeded":
            error = str(prediction.get("error") or prediction["status"])
            self.raise_error(200, ErrorBody("", error))
        if prediction.get("version"):
            notes["answered_by"] = prediction["version"]
        if prediction.get("metrics"):
            notes["usage"] = prediction["metrics"]
        output = prediction.get("output")
        if isinstance(output, list):
            output = output[0] if output else None
        return self.fetch_image(output, notes)

    def _seconds_to_wait(self, reply: Reply, body: Any) -> float | None:
        seconds = body.get("retry_after") if isinstance(body, dict) else None
        return super()._seconds_to_wait(reply, body) or retry_after(
            {"retry-after": str(seconds or "")}
        )

    def _address(self, request: Request) -> str:
        """Return a data URI of the image; for a large image, upload it and return the address."""
        png = request.image.png()
        if len(png) <= INLINE_BYTES:
            return data_uri(request.image)
        url = f"{self.url}/v1/files"
        content_type, content = multipart(url, {"content": ("image.png", png, "image/png")})
        headers = {**self._authorisation(request.key), "Content-Type": content_type}
        reply = self.http.send("POST", url, headers=headers, content=content)
        address = (self._parsed(reply).get("urls") or {}).get("get")
        if not isinstance(address, str):
            raise bad_answer("Replicate returned no address for the uploaded image")
        return address
