"""Cog predictions: `POST {base}/predictions`, hosted by Replicate or by anyone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from evaluation.editors.contracts.base import IMAGE, Call, Contract, Request, Settings
from evaluation.editors.contracts.replies import (
    check_status,
    raise_if_error,
    read_image_value,
    read_json,
    retry_after,
)
from evaluation.editors.failures import bad_answer
from evaluation.errors import EditorError, Fault
from evaluation.net.client import Reply

MAX_POLLS = 600
FIRST_WAIT, LONGEST_WAIT = 0.25, 2.0
_WAITING = ("starting", "processing", "queued")


class CogPredictions(Contract):
    """JSON `input` with prompt and image; `output` is a data: URI, a URL or a list.

    The names of the inputs differ between models: see `image_field` and `prompt_field`. The size is
    sent as `width` and `height`.
    """

    name = "cog"
    label = "Cog predictions"
    path = "/predictions"
    reserved = frozenset({"seed"})

    def request(
        self, settings: Settings, prompt: str, seed: int | None, size: tuple[int, int]
    ) -> Request:
        name, is_list = self.field(settings, "image")
        uri = f"data:image/png;base64,{IMAGE}"
        inputs: dict[str, Any] = {self.field(settings, "prompt")[0]: prompt}
        if settings.send_seed and seed is not None:
            inputs["seed"] = seed
        if requested := settings.dimensions(size):
            inputs["width"], inputs["height"] = requested
        # An extra parameter of null removes an input, such as width.
        inputs.update(settings.extra)
        inputs = {key: value for key, value in inputs.items() if value is not None}
        body: dict[str, Any] = {"input": {**inputs, name: [uri] if is_list else uri}}
        if settings.model:
            body["version"] = settings.model
        return Request(self.address(settings), json=body, headers={"Prefer": "wait"})

    def image(self, call: Call, reply: Reply) -> bytes:
        prediction = self._read(call, reply)
        wait = FIRST_WAIT
        for _ in range(MAX_POLLS):
            if prediction.get("status") not in _WAITING:
                return self._output(call, prediction)
            if call.seconds_left() <= wait:
                break
            time.sleep(wait)
            wait = min(LONGEST_WAIT, wait * 1.5)
            prediction = self._read(call, call.poll(self._poll_address(call, prediction)))
        raise EditorError(
            "the prediction was not ready within the time limit", fault=Fault.TIMEOUT, billed=True
        )

    def _read(self, call: Call, reply: Reply) -> Mapping[str, Any]:
        if reply.status == 409:
            raise EditorError(
                "the endpoint is busy with another prediction (HTTP 409)",
                fault=Fault.RATE_LIMITED,
                retry_after=retry_after(reply),
            )
        check_status(call, reply)
        return read_json(call, reply)

    def _poll_address(self, call: Call, prediction: Mapping[str, Any]) -> str:
        urls = prediction.get("urls")
        if isinstance(urls, Mapping) and isinstance(urls.get("get"), str):
            return str(urls["get"])
        name = prediction.get("id")
        if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
            raise bad_answer("the prediction is not ready and has no id to poll")
        base, mark, query = self.address(call.settings).partition("?")
        return f"{base}/{name}{mark}{query}"

    def _output(self, call: Call, prediction: Mapping[str, Any]) -> bytes:
        status = prediction.get("status")
        if status not in (None, "succeeded"):
            raise_if_error(call, {"error": prediction.get("error") or f"prediction {status}"})
        output = prediction.get("output")
        if isinstance(output, list) and output:
            output = output[0]
        return read_image_value(call, output)
