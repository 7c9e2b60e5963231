"""ESRGAN-slim, a network of 24 layers that a CPU runs: it draws detail into a picture of half size.

The weights are UpscalerJS's (MIT), a Keras model of TensorFlow.js; of its layers these few kinds
occur. Its larger siblings for denoising and deblurring, MAXIM, are graphs of 45,000 nodes and 43
kinds of operations in 83 MB each: too much for a baseline that every machine should play.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from evaluation import weights
from evaluation.editors.restorers import RestoringEditor

WEIGHTS = "esrgan-slim"


@dataclass(frozen=True)
class Layer:
    """One layer: what it does, of which others, and its numbers."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    kernel: Any = None
    bias: Any = None
    factor: int = 1


class SuperResolver(RestoringEditor):
    """Shrinks the picture to half, where blur and blocks are small, and has the network enlarge it."""

    queue = "gpu"  # computes with torch
    modules: ClassVar[dict[str, str]] = {**RestoringEditor.modules, "torch": "torch"}

    def restored(self, image: Image.Image) -> Image.Image:
        import torch

        half = (max(1, image.width // 2), max(1, image.height // 2))
        small = np.asarray(image.resize(half, Image.Resampling.BOX), dtype=np.float32)
        with torch.inference_mode():
            answer = self._run(torch.from_numpy(small.transpose(2, 0, 1).copy())[None])
        pixels = np.rint(np.clip(answer[0].numpy().transpose(1, 2, 0), 0, 255)).astype(np.uint8)
        return Image.fromarray(pixels).resize(image.size, Image.Resampling.LANCZOS)

    def _run(self, picture: Any) -> Any:
        import torch
        from torch.nn import functional

        known: dict[str, Any] = {}
        answer = picture
        for layer in self._layers:
            given = [known[name] for name in layer.inputs]
            match layer.kind:
                case "InputLayer":
                    answer = picture
                case "Conv2D":
                    answer = functional.conv2d(given[0], layer.kernel, layer.bias, padding="same")
                case "Activation":
                    answer = torch.relu(given[0])
                case "Concatenate":
                    answer = torch.cat(given, dim=1)
                case "Add":
                    answer = given[0] + given[1]
                case "UpSampling2D":
                    answer = functional.interpolate(given[0], scale_factor=layer.factor)
                case _:
                    raise weights.WeightsError(f"{WEIGHTS} has a layer {layer.kind}")
            known[layer.name] = answer
        return answer

    @cached_property
    def _layers(self) -> list[Layer]:
        """The layers in order, their numbers turned from TensorFlow's way to torch's."""
        import torch

        data = weights.locate(WEIGHTS)[0].read_bytes()
        length = int.from_bytes(data[:8], "little")
        model = json.loads(data[8 : 8 + length])
        numbers: dict[str, Any] = {}
        at = 8 + length
        for row in model["weightsManifest"][0]["weights"]:
            count = int(np.prod(row["shape"]))
            values = np.frombuffer(data, np.float32, count, at).reshape(row["shape"])
            at += 4 * count
            if values.ndim == 4:
                values = values.transpose(3, 2, 0, 1)
            numbers[row["name"]] = torch.from_numpy(values.copy())
        rows = model["modelTopology"]["model_config"]["config"]["layers"]
        return [
            Layer(
                row["name"],
                row["class_name"],
                tuple(one[0] for one in row["inbound_nodes"][0]) if row["inbound_nodes"] else (),
                numbers.get(f"{row['name']}/kernel"),
                numbers.get(f"{row['name']}/bias"),
                (row["config"].get("size") or [1])[0],
            )
            for row in rows
        ]

    def missing(self) -> list[str]:
        lacking = super().missing()
        try:
            weights.locate(WEIGHTS)
        except weights.WeightsError as error:
            lacking.append(str(error))
        return lacking

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"weights_sha256": weights.locate(WEIGHTS)[1]}
