"""Hugging Face image-to-image, compatible with `InferenceClient.image_to_image`."""

from __future__ import annotations

from typing import Any

from evaluation.editors.contracts.base import IMAGE, Call, Contract, Request, Settings
from evaluation.editors.contracts.replies import check_status, read_image, read_json
from evaluation.net.client import Reply


class HuggingFaceImageToImage(Contract):
    """`POST url` with JSON `inputs` and `parameters`; the answer is the image's bytes."""

    name = "huggingface"
    label = "Hugging Face image-to-image"
    image_field = "inputs"
    reserved = frozenset({"seed", "target_size"})

    def request(
        self, settings: Settings, prompt: str, seed: int | None, size: tuple[int, int]
    ) -> Request:
        parameters: dict[str, Any] = {self.field(settings, "prompt")[0]: prompt}
        if settings.send_seed and seed is not None:
            parameters["seed"] = seed
        if requested := settings.dimensions(size):
            parameters["target_size"] = {"width": requested[0], "height": requested[1]}
        parameters.update(settings.extra)
        body: dict[str, Any] = {self.field(settings, "image")[0]: IMAGE, "parameters": parameters}
        if settings.model:
            body["model"] = settings.model
        return Request(self.address(settings), json=body, headers={"Accept": "image/png"})

    def image(self, call: Call, reply: Reply) -> bytes:
        check_status(call, reply)
        if reply.media_type.endswith("json"):
            read_json(call, reply)  # raises the reported error, whose message is better than ours
        return read_image(call, reply)
