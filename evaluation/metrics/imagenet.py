"""ImageNet features: EfficientNet-Lite0, the semantic metric that needs no hub."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PIL import Image

from evaluation import weights
from evaluation.metrics.base import Features
from evaluation.metrics.networks.base import NetworkMetric, as_tensor, cosine_distances

SIDE = 224


class ImageNet(NetworkMetric):
    """1 - cosine of the pooled features; the picture is seen at 224 x 224 pixels."""

    name, label, version = "imagenet", "ImageNet features", "efficientnet-lite0-1"
    looks_at, semantic = "content", True
    higher_is_better = True
    modules = {"torch": "torch", "efficientnet_lite_pytorch": "efficientnet-lite-pytorch"}
    weights = "imagenet"

    def load(self) -> Any:
        import torch
        from efficientnet_lite_pytorch import EfficientNet

        file, _ = weights.locate(self.weights)
        network = EfficientNet.from_name("efficientnet-lite0")
        state = torch.load(file, map_location="cpu", weights_only=True)
        network.load_state_dict(state, strict=True)
        return network

    def features(self, images: Sequence[Image.Image]) -> Features:
        small = [image.resize((SIDE, SIDE), Image.Resampling.BICUBIC) for image in images]
        inputs = as_tensor(small, self.device).sub_(127).div_(128)
        return self.network.extract_features(inputs.to(self.dtype)).float().mean((2, 3))

    def compare(self, sources: Sequence[Features], images: Sequence[Image.Image]) -> list[float]:
        return cosine_distances(sources, self.features(images))
