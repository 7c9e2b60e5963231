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
#: A larger picture goes through by tiles of this side, where that changes nothing: 10 megapixels
#: at once took 4.5 GB.
LARGE_PIXELS = 576 * 576
TILE = 576
#: What looks at each value alone.
LOCAL = ("ReLU", "SiLU", "GELU", "Identity", "Dropout")


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
    halo = sight(autoencoder) if image.width * image.height > LARGE_PIXELS else None
    if halo is None or 4 * halo > TILE:
        return _passed(autoencoder, image)
    result, inner = Image.new("RGB", image.size), TILE - 2 * halo
    for top in range(0, image.height, inner):
        for left in range(0, image.width, inner):
            first, upper = max(0, left - halo), max(0, top - halo)
            last, lower = left + inner + halo, top + inner + halo
            seen = (first, upper, min(last, image.width), min(lower, image.height))
            part = _passed(autoencoder, image.crop(seen))
            own = (left - first, top - upper, left - first + inner, top - upper + inner)
            own = (*own[:2], min(own[2], part.width), min(own[3], part.height))
            result.paste(part.crop(own), (left, top))
    return result


def sight(autoencoder: Any) -> int | None:
    """How far a pixel's answer sees at most, in whole steps; None where it sees all of the picture.

    Convolutions see their neighbours, at the scale that they work at; whatever norms or attends
    sees everything.
    """
    import torch

    reach, scale = 0.0, 1.0
    for module in autoencoder.modules():
        if isinstance(module, torch.nn.Conv2d):
            reach += (module.kernel_size[0] // 2) * module.dilation[0] * scale
            scale *= module.stride[0]
        elif isinstance(module, torch.nn.Upsample):
            scale /= float(module.scale_factor)
        elif not list(module.children()) and type(module).__name__ not in LOCAL:
            return None
    return -(-int(reach) // STEP) * STEP


def _passed(autoencoder: Any, image: Image.Image) -> Image.Image:
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
