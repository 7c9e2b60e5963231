"""Restoration baselines that run on a CPU: classical filters, and a small network.

If a prompt asks for an edit other than restoration, they follow fixed rules, as every reference
editor does.

The network is ESRGAN-slim: 24 layers that double the size of an image. Its weights come from
UpscalerJS (MIT), which stores them as a Keras model for TensorFlow.js with few kinds of layers.
The larger MAXIM models for denoising and deblurring have 45,000 nodes and 83 MB each, too much for
a baseline that runs everywhere.
"""

from __future__ import annotations

import json
import math
import re
import time
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation import weights
from evaluation.editors.base import Answer, EditContext
from evaluation.editors.instructions import widened
from evaluation.editors.reference import RuleEditor
from evaluation.images import EncodedImage

Pixels = npt.NDArray[np.uint8]
#: Grain below this standard deviation (of 255) is left alone: such grain belongs to the image.
MIN_GRAIN = 2.5
#: Smallest contrast of a scratch to its surroundings, in grey levels and in multiples of the grain.
SCRATCH_LEVELS, SCRATCH_GRAINS = 32.0, 5.0
#: If more than this share of the image looks scratched, the scratches are taken for texture.
MAX_SCRATCHED = 0.04
#: The contrast is stretched if the image's brightness spans less than this share of 0..255,
#: measured between these percentiles.
FULL_SPAN, SPAN_PERCENTILES = 0.8, (0.5, 99.5)
#: Limit of the gains of the channels that remove a colour cast.
STRONGEST_GAIN = 1.35
#: Amount of unsharp masking, and its sigma as a share of the longer side.
SHARPEN, SHARPEN_SIGMA = 0.9, 1 / 400

#: Prompts that ask for restoration.
_RESTORE = re.compile(
    r"\b(restor\w*|enhanc\w*|denois\w*|deblur\w*)\b|\bimprove\b.*\b(clarity|quality)\b"
    r"|\bbring it back to how it should look\b",
    re.IGNORECASE | re.DOTALL,
)


class RestoringEditor(RuleEditor):
    """An editor that restores the image if the prompt asks for it."""

    made_for: ClassVar[str | None] = "operator"

    def edit(
        self,
        image: EncodedImage,
        prompt: str,
        seed: int | None = None,
        context: EditContext | None = None,
    ) -> Answer:
        if not _RESTORE.search(prompt):
            return super().edit(image, prompt, seed, context)
        started = time.perf_counter()
        answer = EncodedImage.from_image(self.restored(image.decoded))
        return Answer(answer, time.perf_counter() - started, 0.0, {"understood": "restore"})

    @abstractmethod
    def restored(self, image: Image.Image) -> Image.Image:
        """Return the restored image."""


class Restorer(RestoringEditor):
    """Restores by classical filters, each as strong as the image seems to need.

    It inpaints scratches, smooths grain by non-local means, stretches brightness and colours, and
    sharpens edges.
    """

    def restored(self, image: Image.Image) -> Image.Image:
        pixels: Pixels = np.asarray(image)
        pixels = _without_scratches(pixels)
        pixels = _without_grain(pixels)
        pixels = _stretched(pixels)
        return Image.fromarray(_sharpened(pixels))


def estimate_grain(pixels: Pixels) -> float:
    """Estimate the standard deviation of the noise (of 255) by Immerkær's mask.

    The mask does not respond to flat areas and straight edges.
    """
    import cv2

    mask = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], dtype=np.float64)
    light = _light(pixels).astype(np.float64)
    edges = np.abs(cv2.filter2D(light, -1, mask))
    # The quieter half of the pixels shows grain, the other half texture.
    return float(math.sqrt(math.pi / 2) / 6 * edges[edges <= np.median(edges)].mean() * 2.5)


def _light(pixels: Pixels) -> Pixels:
    import cv2

    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY))


def _without_scratches(pixels: Pixels) -> Pixels:
    import cv2

    light = _light(pixels)
    contrast = np.abs(light.astype(np.int16) - cv2.medianBlur(light, 5))
    mask = contrast > max(SCRATCH_LEVELS, SCRATCH_GRAINS * estimate_grain(pixels))
    if not mask.any() or mask.mean() > MAX_SCRATCHED:
        return pixels
    hole = widened(mask, 1).astype(np.uint8)
    return np.asarray(cv2.inpaint(np.ascontiguousarray(pixels), hole, 3, cv2.INPAINT_TELEA))


def _without_grain(pixels: Pixels) -> Pixels:
    import cv2

    sigma = estimate_grain(pixels)
    if sigma < MIN_GRAIN:
        return pixels
    # The filter expects BGR: it computes brightness and colour, and smooths them separately.
    swapped = np.ascontiguousarray(pixels[:, :, ::-1])
    smooth: Any = cv2.fastNlMeansDenoisingColored(swapped, None, 0.9 * sigma, 0.9 * sigma, 5, 15)
    return np.ascontiguousarray(smooth[:, :, ::-1])


def _stretched(pixels: Pixels) -> Pixels:
    """Remove the colour cast of an image of low contrast, and stretch its contrast."""
    values = pixels.astype(np.float64)
    low, high = np.percentile(_light(pixels), SPAN_PERCENTILES)
    if (high - low) / 255 < FULL_SPAN and high > low:
        means = values.mean(axis=(0, 1))
        gains = np.clip(means.mean() / np.maximum(means, 1), 1 / STRONGEST_GAIN, STRONGEST_GAIN)
        values = values * gains
        low, high = np.percentile(values.mean(axis=-1), SPAN_PERCENTILES)
        values = (values - low) * 255 / max(high - low, 1)
    return np.rint(np.clip(values, 0, 255)).astype(np.uint8)


def _sharpened(pixels: Pixels) -> Pixels:
    import cv2

    soft = cv2.GaussianBlur(pixels, (0, 0), max(0.6, max(pixels.shape) * SHARPEN_SIGMA))
    values = pixels.astype(np.float64)
    return np.rint(np.clip(values + SHARPEN * (values - soft), 0, 255)).astype(np.uint8)


@dataclass(frozen=True)
class Layer:
    """One layer of the network, with its inputs and weights."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    kernel: Any = None
    bias: Any = None
    factor: int = 1


class SuperResolver(RestoringEditor):
    """Halves the image, which hides blur and blocks, and enlarges it with the network."""

    queue = "gpu"  # computes with torch
    weights = "esrgan-slim"
    modules: ClassVar[dict[str, str]] = {**RestoringEditor.modules, "torch": "torch"}

    def restored(self, image: Image.Image) -> Image.Image:
        import torch

        half = (max(1, image.width // 2), max(1, image.height // 2))
        small = np.asarray(image.resize(half, Image.Resampling.BOX), dtype=np.float32)
        with torch.inference_mode():
            answer = self._run(torch.from_numpy(small.transpose(2, 0, 1).copy())[None])
        pixels = np.rint(np.clip(answer[0].numpy().transpose(1, 2, 0), 0, 255)).astype(np.uint8)
        return Image.fromarray(pixels).resize(image.size, Image.Resampling.LANCZOS)

    def _run(self, image: Any) -> Any:
        import torch
        from torch.nn import functional

        outputs: dict[str, Any] = {}
        answer = image
        for layer in self._layers:
            inputs = [outputs[name] for name in layer.inputs]
            match layer.kind:
                case "InputLayer":
                    answer = image
                case "Conv2D":
                    answer = functional.conv2d(inputs[0], layer.kernel, layer.bias, padding="same")
                case "Activation":
                    answer = torch.relu(inputs[0])
                case "Concatenate":
                    answer = torch.cat(inputs, dim=1)
                case "Add":
                    answer = inputs[0] + inputs[1]
                case "UpSampling2D":
                    answer = functional.interpolate(inputs[0], scale_factor=layer.factor)
                case _:
                    raise weights.WeightsError(
                        f"{self.weights} has a layer of an unknown kind: {layer.kind}"
                    )
            outputs[layer.name] = answer
        return answer

    @cached_property
    def _layers(self) -> list[Layer]:
        """Read the layers in order, with weights converted from TensorFlow to torch."""
        import torch

        data = weights.locate(self.weights)[0].read_bytes()
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
                tuple(node[0] for node in row["inbound_nodes"][0]) if row["inbound_nodes"] else (),
                numbers.get(f"{row['name']}/kernel"),
                numbers.get(f"{row['name']}/bias"),
                (row["config"].get("size") or [1])[0],
            )
            for row in rows
        ]
