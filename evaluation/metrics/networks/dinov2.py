"""DINOv2 ViT-S/14: features of an image's patches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evaluation.metrics.networks.base import multiply, onednn_works
from evaluation.torch_compat import fix_torchvision
from evaluation.weights.dinov2 import transformers_name

PATCH = 14
# Images are resized to about this many pixels in all; their aspect ratio is preserved.
AREA = 448**2
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
# Attention over this many patches at a time stays in a processor's cache.
ROWS = 256
SPREAD = np.array([0.229, 0.224, 0.225], dtype=np.float32)


def dinov2(file: Path) -> Any:
    """Return the network with weights from a verified safetensors file."""
    import torch
    from safetensors.torch import load_file

    fix_torchvision()
    from transformers import AttentionInterface, Dinov2Config, Dinov2Model

    AttentionInterface.register(attention.__name__, attention)
    config = Dinov2Config(
        attn_implementation=attention.__name__,
        hidden_size=384,
        num_hidden_layers=12,
        num_attention_heads=6,
        mlp_ratio=4,
        image_size=518,
        patch_size=PATCH,
    )
    # Built on "meta", without values, so that no weight can stay random.
    with torch.device("meta"):
        network = Dinov2Model(config)
    # All tensors but large matrices are cloned: a single tensor of the mapped file would keep the
    # whole file in memory. Matrices are copied later, when they are packed for the CPU.
    state = {
        transformers_name(name): values
        if min(values.shape) > PATCH and values.dim() == 2
        else values.clone()
        for name, values in load_file(file).items()
    }
    network.load_state_dict(state, assign=True)
    return network


def attention(
    module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **options: Any
) -> tuple[Any, None]:
    """Return attention without a mask; on a CPU oneDNN takes a third less time than torch."""
    import torch

    # Axes: image, head, patch, feature.
    if query.device.type != "cpu" or query.dtype != torch.float32 or not onednn_works():
        attended = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, scale=scaling
        )
        return attended.transpose(1, 2), None
    images, heads, patches, _ = query.shape
    query, key = (query * scaling).contiguous(), key.contiguous()
    columns = value.transpose(2, 3).contiguous()
    attended = torch.empty_like(value.transpose(1, 2), memory_format=torch.contiguous_format)
    for image, head in np.ndindex(images, heads):
        for top in range(0, patches, ROWS):
            rows = slice(top, top + ROWS)
            shares = multiply(query[image, head, rows], key[image, head]).softmax(dim=-1)
            attended[image, rows, head] = multiply(shares, columns[image, head])
    return attended, None


def patches(network: Any, images: Sequence[Image.Image], layers: Sequence[int]) -> list[Any]:
    """Return each image's patch features by layer, as arrays of rows, columns and features.

    Features have unit length. All images must have the same size.
    """
    import torch

    weight = next(network.parameters())
    pixels = np.stack([_at_network_size(image) for image in images])
    batch = torch.from_numpy(pixels).to(weight.device, weight.dtype)
    hidden = network(batch, output_hidden_states=True).hidden_states
    rows, columns = pixels.shape[2] // PATCH, pixels.shape[3] // PATCH
    tables = {}
    for layer in layers:
        values = network.layernorm(hidden[layer])[:, 1:].float().cpu().numpy()
        values = values.reshape(len(images), rows, columns, -1)
        tables[layer] = values / np.linalg.norm(values, axis=-1, keepdims=True)
    return [{layer: tables[layer][index] for layer in layers} for index in range(len(images))]


def _at_network_size(image: Image.Image) -> NDArray[np.float32]:
    """Return the image as channels, rows and columns; its sides are multiples of a patch."""
    factor = math.sqrt(AREA / (image.width * image.height))
    width, height = (max(1, round(side * factor / PATCH)) * PATCH for side in image.size)
    small = np.asarray(image.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float32)
    return np.ascontiguousarray(((small / 255 - MEAN) / SPREAD).transpose(2, 0, 1))
