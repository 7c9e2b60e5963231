"""The OpenAI contracts: images/edits as multipart, images/generations as JSON.

vLLM-Omni, SGLang, Xinference, LiteLLM and stable-diffusion.cpp serve edits; Ark and LocalAI serve
generations. These servers accept different parameters: OpenAI itself rejects `seed` and
`response_format`, so both are optional.
"""

from __future__ import annotations

import json
from typing import Any

from evaluation.editors.contracts.base import IMAGE, Call, Contract, Request, Settings
from evaluation.editors.contracts.replies import (
    check_status,
    raise_if_error,
    read_image_value,
    read_json,
)
from evaluation.editors.failures import bad_answer
from evaluation.net.client import Reply


class _OpenAI(Contract):
    reserved = frozenset({"n", "model", "size", "seed", "response_format", "stream"})

    def parameters(
        self, settings: Settings, prompt: str, seed: int | None, size: tuple[int, int]
    ) -> dict[str, Any]:
        """Return all parameters except the image."""
        fields: dict[str, Any] = {self.field(settings, "prompt")[0]: prompt}
        if settings.model:
            fields["model"] = settings.model
        fields["n"] = 1
        if requested := settings.dimensions(size):
            fields["size"] = f"{requested[0]}x{requested[1]}"
        fields["output_format"] = "png"
        if settings.send_response_format:
            fields["response_format"] = "b64_json"
        if settings.send_seed and seed is not None:
            fields["seed"] = seed
        # An extra parameter of null removes a parameter that the server rejects.
        fields.update(settings.extra)
        return {name: value for name, value in fields.items() if value is not None}

    def image(self, call: Call, reply: Reply) -> bytes:
        """Return the first image of `data`, which is base64 or a URL."""
        check_status(call, reply)
        payload = read_json(call, reply)
        data = payload.get("data")
        item = data[0] if isinstance(data, list) and data else None
        if not isinstance(item, dict):
            raise bad_answer("the answer has no data[0] with an image")
        raise_if_error(call, item)  # Ark reports the error of an image in its item
        return read_image_value(call, item.get("b64_json") or item.get("url"))


class OpenAIEdits(_OpenAI):
    """`POST {base}/images/edits`, multipart, the image as the file `image`."""

    name = "openai-edits"
    label = "OpenAI images/edits (multipart)"
    path = "/images/edits"

    def request(
        self, settings: Settings, prompt: str, seed: int | None, size: tuple[int, int]
    ) -> Request:
        name, is_list = self.field(settings, "image")
        form = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in self.parameters(settings, prompt, seed, size).items()
        }
        return Request(
            self.address(settings), form=form, image_field=f"{name}[]" if is_list else name
        )


class OpenAIGenerations(_OpenAI):
    """`POST {base}/images/generations`, JSON, with the image in an extra field.

    Ark takes a data: URI in `image`; LocalAI takes base64 in `file`, or a list in `ref_images[]`.
    """

    name = "openai-generations"
    label = "OpenAI images/generations (JSON)"
    path = "/images/generations"

    def request(
        self, settings: Settings, prompt: str, seed: int | None, size: tuple[int, int]
    ) -> Request:
        name, is_list = self.field(settings, "image")
        value = IMAGE if name in ("file", "ref_images") else f"data:image/png;base64,{IMAGE}"
        body = self.parameters(settings, prompt, seed, size)
        return Request(self.address(settings), json={**body, name: [value] if is_list else value})
