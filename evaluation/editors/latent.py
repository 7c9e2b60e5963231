"""The latent editor: edits by rule, then one pass through an autoencoder.

Latent diffusion models encode the picture, work on the code, and decode it.
This editor does only that: the wear that all of them share, with no model
between. Our own tiny autoencoder ships with it; any other that diffusers reads
can take its place.
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

from evaluation.editors.reference import RuleEditor
from evaluation.errors import EditorError, Fault
from evaluation.images import Picture
from evaluation.torch_compat import ready_torchvision

OWN = Path(__file__).resolve().parent / "autoencoder" / "model"
# Every known autoencoder halves the picture at most five times.
STEP = 32


@dataclass
class Latent(RuleEditor):
    """`checkpoint` is a folder or a hub id of an AutoencoderTiny, AutoencoderKL or the like,
    with `subfolder` where it is part of a pipeline; by default the one that ships."""

    checkpoint: str = ""
    subfolder: str = ""

    queue: ClassVar[str] = "gpu"
    modules: ClassVar[dict[str, str]] = RuleEditor.modules | {
        "torch": "torch",
        "diffusers": "diffusers",
        "safetensors": "safetensors",
    }

    def __post_init__(self) -> None:
        self._lock = threading.Lock()  # threads share the editor, and the memory of one device

    def damage(self, image: Image.Image, random: np.random.Generator) -> Picture:
        import torch

        width, height = image.size
        wide, high = -width % STEP, -height % STEP
        pixels = np.pad(np.asarray(image), ((0, high), (0, wide), (0, 0)), mode="edge")
        with self._lock, torch.inference_mode():
            device = next(self.autoencoder.parameters()).device
            values = torch.from_numpy(pixels).to(device).permute(2, 0, 1)[None].float() / 127.5 - 1
            decoded = self.autoencoder.decode(self._encode(values)).sample[0]
            decoded = ((decoded.clamp(-1, 1) + 1) * 127.5).round().byte()
            answer = decoded.permute(1, 2, 0).cpu().numpy()[:height, :width]
        return Picture.from_image(Image.fromarray(answer))

    def _encode(self, values: Any) -> Any:
        encoded = self.autoencoder.encode(values)
        # A KL autoencoder gives a distribution; its mode needs no seed.
        return encoded.latent_dist.mode() if hasattr(encoded, "latent_dist") else encoded.latents

    @cached_property
    def autoencoder(self) -> Any:
        # Imported here: pages must not pay for torch, and a CUDA context opened before RQ
        # forks would be unusable in the child.
        import torch

        ready_torchvision()
        from diffusers import AutoModel

        options = {"subfolder": self.subfolder} if self.subfolder else {}
        try:
            model: Any = AutoModel.from_pretrained(self.checkpoint or str(OWN), **options)
        except (OSError, ValueError, KeyError, ImportError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise EditorError(
                f"the autoencoder {self.checkpoint or OWN} cannot be loaded: {reason}",
                fault=Fault.CONFIGURATION,
                permanent=True,
            ) from error
        return model.eval().requires_grad_(False).to("cuda" if torch.cuda.is_available() else "cpu")

    def missing(self) -> list[str]:
        lacking = super().missing()
        if not self.checkpoint and not self._weights(OWN):
            lacking.append(f"the autoencoder's weights are not in {OWN}: use a full checkout")
        return lacking

    def describe(self) -> dict[str, Any]:
        description = super().describe() | {"checkpoint": self.checkpoint or "own"}
        # Of a hub id the name must do; the file may not even be here yet.
        weights = self._weights(Path(self.checkpoint or OWN) / self.subfolder)
        if weights:
            description["weights_sha256"] = hashlib.sha256(weights.read_bytes()).hexdigest()
        return description

    @staticmethod
    def _weights(folder: Path) -> Path | None:
        return next(iter(sorted(folder.glob("*.safetensors"))), None) if folder.is_dir() else None
