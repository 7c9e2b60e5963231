"""The latent editor: edits by fixed rules, then passes the image through an autoencoder.

Every latent diffusion model encodes the image, edits the code, and decodes it. This editor only
encodes and decodes, so it does the least damage that such a model can do. The default is our own
tiny autoencoder. Any autoencoder that diffusers can load may replace it.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from evaluation.editors.base import EditContext
from evaluation.editors.failures import misconfigured
from evaluation.editors.instructions import Instruction
from evaluation.editors.reference import RuleEditor
from evaluation.images import EncodedImage
from evaluation.torch_compat import fix_torchvision

BUNDLED = Path(__file__).resolve().parent / "autoencoder" / "model"
# Sides must be multiples of this: every known autoencoder halves the image at most five times.
SIDE_STEP = 32
#: Images above LARGE_PIXELS are processed in tiles of side TILE, if tiling does not change the
#: result: 10 megapixels at once take 4.5 GB.
LARGE_PIXELS = 576 * 576
TILE = 576
#: Modules without a spatial extent: they process each value alone.
LOCAL = ("ReLU", "SiLU", "GELU", "Identity", "Dropout")


@dataclass
class Latent(RuleEditor):
    """Edits by fixed rules, then encodes and decodes.

    `checkpoint` is a folder or hub id of an AutoencoderTiny, AutoencoderKL or the like; empty: the
    bundled one. `subfolder` is the autoencoder's folder in a pipeline.
    """

    checkpoint: str = ""
    subfolder: str = ""

    queue: ClassVar[str] = "gpu"
    has_floor: ClassVar[bool] = True
    modules: ClassVar[dict[str, str]] = RuleEditor.modules | {
        "torch": "torch",
        "diffusers": "diffusers",
        "safetensors": "safetensors",
    }

    def __post_init__(self) -> None:
        self._lock = threading.Lock()  # threads share one device's memory

    def answer(
        self, image: EncodedImage, instruction: Instruction, seed: int, context: EditContext
    ) -> EncodedImage:
        if context.settings.floor:
            return self.damage(image.decoded, np.random.default_rng(seed))
        return super().answer(image, instruction, seed, context)

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        with self._lock:
            return EncodedImage.from_image(autoencode(self.autoencoder, image))

    @cached_property
    def autoencoder(self) -> Any:
        options = {"subfolder": self.subfolder} if self.subfolder else {}
        return load_autoencoder(self.checkpoint or str(BUNDLED), **options)

    def missing(self) -> list[str]:
        missing = super().missing()
        if not self.checkpoint and not weights_sha256(BUNDLED):
            missing.append(f"the autoencoder's weights are not in {BUNDLED}: use a full checkout")
        return missing

    def describe(self) -> dict[str, Any]:
        description = super().describe() | {"checkpoint": self.checkpoint or "own"}
        # The weights of a hub id get no hash: they may not be downloaded yet.
        sha256 = weights_sha256(Path(self.checkpoint or BUNDLED) / self.subfolder)
        return description | ({"weights_sha256": sha256} if sha256 else {})


def load_autoencoder(checkpoint: str, **options: Any) -> Any:
    """Load the autoencoder of this folder or hub id, on the GPU if there is one."""
    # Imported here: pages must not load torch, and a CUDA context opened before RQ
    # forks would be unusable in the child.
    import torch

    fix_torchvision()
    from diffusers import AutoModel

    try:
        model: Any = AutoModel.from_pretrained(checkpoint, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise misconfigured(f"the autoencoder {checkpoint} cannot be loaded: {reason}") from error
    return model.eval().requires_grad_(False).to("cuda" if torch.cuda.is_available() else "cpu")


def autoencode(autoencoder: Any, image: Image.Image) -> Image.Image:
    """Encode and decode the image once, at its own size; a large image in tiles."""
    halo = receptive_radius(autoencoder) if image.width * image.height > LARGE_PIXELS else None
    if halo is None or 4 * halo > TILE:
        return _autoencode_whole(autoencoder, image)
    result, inner = Image.new("RGB", image.size), TILE - 2 * halo
    for top in range(0, image.height, inner):
        for left in range(0, image.width, inner):
            first, upper = max(0, left - halo), max(0, top - halo)
            last, lower = left + inner + halo, top + inner + halo
            with_halo = (first, upper, min(last, image.width), min(lower, image.height))
            tile = _autoencode_whole(autoencoder, image.crop(with_halo))
            inside = (left - first, top - upper, left - first + inner, top - upper + inner)
            inside = (*inside[:2], min(inside[2], tile.width), min(inside[3], tile.height))
            result.paste(tile.crop(inside), (left, top))
    return result


def receptive_radius(autoencoder: Any) -> int | None:
    """Return the distance over which pixels depend on each other; None: the whole image.

    The distance is rounded up to a multiple of SIDE_STEP. The output of a convolution depends on
    its neighbours at its own scale, that of norms and attention on all pixels.
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
    return -(-int(reach) // SIDE_STEP) * SIDE_STEP


def _autoencode_whole(autoencoder: Any, image: Image.Image) -> Image.Image:
    import torch

    width, height = image.size
    right, bottom = -width % SIDE_STEP, -height % SIDE_STEP
    pixels = np.pad(np.asarray(image), ((0, bottom), (0, right), (0, 0)), mode="edge")
    with torch.inference_mode():
        weights = next(iter(autoencoder.parameters()))
        values = torch.from_numpy(pixels).to(weights.device, weights.dtype)
        values = values.permute(2, 0, 1)[None] / 127.5 - 1
        if _expects_video(autoencoder):
            decoded = autoencoder.decode(_encoded(autoencoder, values[:, :, None])).sample[:, :, 0]
        else:
            decoded = autoencoder.decode(_encoded(autoencoder, values)).sample
        decoded = ((decoded[0].float().clamp(-1, 1) + 1) * 127.5).round().byte()
        return Image.fromarray(decoded.permute(1, 2, 0).cpu().numpy()[:height, :width])


def _encoded(autoencoder: Any, values: Any) -> Any:
    encoded = autoencoder.encode(values)
    # A KL autoencoder gives a distribution; its mode needs no seed.
    return encoded.latent_dist.mode() if hasattr(encoded, "latent_dist") else encoded.latents


def _expects_video(autoencoder: Any) -> bool:
    """Return True if the autoencoder takes images as videos of one frame, as Qwen-Image's does."""
    return any(weight.ndim == 5 for weight in autoencoder.parameters())


def weights_sha256(folder: Path) -> str | None:
    """Return the hash of the first weights file in this folder; None if there is none."""
    file = next(iter(sorted(folder.glob("*.safetensors"))), None) if folder.is_dir() else None
    return hashlib.sha256(file.read_bytes()).hexdigest() if file else None
