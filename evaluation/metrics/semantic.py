"""Semantic metrics: similarity of meaning by CLIP and ImageNet features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from PIL import Image

from evaluation import weights
from evaluation.metrics.base import Features, MetricError
from evaluation.metrics.networks.base import FeatureMetric, as_tensor, cosine_distances
from evaluation.torch_compat import fix_torchvision
from evaluation.weights.base import UNREADABLE

# OpenAI's file is a TorchScript archive, which can run code when loaded. We trust only the file
# with this hash.
OPENAI_SHA256 = "b8cca3fd41ae0c99ba7e8951adf17d267cdb84cd88be6f7c2e0eca1737a03836"


class Clip(FeatureMetric):
    """CLIP ViT-L/14 (Radford et al., 2021): 1 - cosine of the image embeddings.

    Images are preprocessed by CLIP's own transform.
    """

    name, label, version = "clip", "CLIP similarity", "vit-l-14-openai-1"
    looks_at, semantic = "meaning", True
    higher_is_better = True
    modules = {"torch": "torch", "open_clip": "open_clip_torch", "safetensors": "safetensors"}
    weights = "clip"
    architecture: ClassVar[str] = "ViT-L-14"

    def load(self) -> Any:
        fix_torchvision()
        import open_clip
        from safetensors import SafetensorError

        file, sha256 = weights.locate(self.weights)
        try:
            network, self._transform = open_clip.create_model_from_pretrained(
                self.architecture,
                pretrained=str(file),
                force_quick_gelu=True,  # as OpenAI trained it
                weights_only=sha256 != OPENAI_SHA256,
            )
        except (*UNREADABLE, SafetensorError) as error:
            raise MetricError(
                f"{file} is not a CLIP {self.architecture} file that open_clip can read: {error}"
            ) from error
        return network

    def features(self, images: Sequence[Image.Image]) -> Features:
        import torch

        network = self.network
        inputs = torch.stack([self._transform(image) for image in images])
        inputs = inputs.to(self.device, self.dtype)
        return network.encode_image(inputs, normalize=True).float()

    def compare(self, sources: Sequence[Features], images: Sequence[Image.Image]) -> list[float]:
        return cosine_distances(sources, self.features(images))

    def direction(
        self, before: Image.Image, after: Image.Image, source_text: str, target_text: str
    ) -> float | None:
        """Return the cosine between the change of the image and the change of the text.

        Both changes are differences of embeddings. Returns None if one of them is zero.
        """
        import open_clip
        import torch

        images = torch.cat([self.prepare(before), self.prepare(after)])
        tokens = open_clip.get_tokenizer(self.architecture)([source_text, target_text])
        with torch.inference_mode():
            texts = self.network.encode_text(tokens.to(self.device), normalize=True).float()
            image_step, text_step = images[1] - images[0], texts[1] - texts[0]
            if not image_step.any() or not text_step.any():
                return None
            return float(torch.nn.functional.cosine_similarity(image_step, text_step, dim=0))


SIDE = 224


class ImageNet(FeatureMetric):
    """EfficientNet-Lite0: 1 - cosine of the pooled features at 224 x 224 pixels.

    Its weights come with a package, so no model hub is needed.
    """

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
