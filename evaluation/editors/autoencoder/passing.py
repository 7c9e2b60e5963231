"""One pass through an autoencoder: encoded, decoded, nothing in between.

It is the wear that every latent model shares, and the floor under one: whatever its prompt says,
its answer has gone through this.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from evaluation.errors import EditorError, Fault
from evaluation.torch_compat import ready_torchvision

# Every known autoencoder halves the picture at most five times.
STEP = 32


def load_autoencoder(checkpoint: str, **options: Any) -> Any:
    """The autoencoder in this folder or under this id of the hub, ready on the best device."""
    # Imported here: pages must not pay for torch, and a CUDA context opened before RQ
    # forks would be unusable in the child.
    import torch

    ready_torchvision()
    from diffusers import AutoModel

    try:
        model: Any = AutoModel.from_pretrained(checkpoint, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise EditorError(
            f"the autoencoder {checkpoint} cannot be loaded: {reason}",
            fault=Fault.CONFIGURATION,
            permanent=True,
        ) from error
    return model.eval().requires_grad_(False).to("cuda" if torch.cuda.is_available() else "cpu")


def passed(autoencoder: Any, image: Image.Image) -> Image.Image:
    """The picture after one pass, at its own size."""
    import torch

    width, height = image.size
    wide, high = -width % STEP, -height % STEP
    pixels = np.pad(np.asarray(image), ((0, high), (0, wide), (0, 0)), mode="edge")
    with torch.inference_mode():
        weights = next(iter(autoencoder.parameters()))
        values = torch.from_numpy(pixels).to(weights.device, weights.dtype)
        values = values.permute(2, 0, 1)[None] / 127.5 - 1
        if _is_of_films(autoencoder):
            decoded = autoencoder.decode(_encoded(autoencoder, values[:, :, None])).sample[:, :, 0]
        else:
            decoded = autoencoder.decode(_encoded(autoencoder, values)).sample
        decoded = ((decoded[0].float().clamp(-1, 1) + 1) * 127.5).round().byte()
        return Image.fromarray(decoded.permute(1, 2, 0).cpu().numpy()[:height, :width])


def _encoded(autoencoder: Any, values: Any) -> Any:
    encoded = autoencoder.encode(values)
    # A KL autoencoder gives a distribution; its mode needs no seed.
    return encoded.latent_dist.mode() if hasattr(encoded, "latent_dist") else encoded.latents


def _is_of_films(autoencoder: Any) -> bool:
    """Whether it takes pictures as films of one frame, as that of Qwen-Image does."""
    return any(weight.ndim == 5 for weight in autoencoder.parameters())


def weights_sha256(folder: Path) -> str | None:
    """The hash of an autoencoder's weights in this folder; None where they are not there."""
    found = next(iter(sorted(folder.glob("*.safetensors"))), None) if folder.is_dir() else None
    return hashlib.sha256(found.read_bytes()).hexdigest() if found else None
