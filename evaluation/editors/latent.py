"""The latent editor: edits by rule, then one pass through an autoencoder.

Latent diffusion models encode the picture, work on the code, and decode it.
This editor does only that: the wear that all of them share, with no model
between. Our own tiny autoencoder ships with it; any other that diffusers reads
can take its place.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from evaluation.editors.autoencoder.passing import load_autoencoder, passed, weights_sha256
from evaluation.editors.base import Beside
from evaluation.editors.instructions import Instruction
from evaluation.editors.reference import RuleEditor
from evaluation.images import Picture

OWN = Path(__file__).resolve().parent / "autoencoder" / "model"


@dataclass
class Latent(RuleEditor):
    """`checkpoint` is a folder or a hub id of an AutoencoderTiny, AutoencoderKL or the like,
    with `subfolder` where it is part of a pipeline; by default the one that ships."""

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
        self._lock = threading.Lock()  # threads share the editor, and the memory of one device

    def answer(
        self, picture: Picture, instruction: Instruction, seed: int, beside: Beside
    ) -> Picture:
        if beside.settings.floor:
            return self.damage(picture.image, np.random.default_rng(seed))
        return super().answer(picture, instruction, seed, beside)

    def damage(self, image: Image.Image, random: np.random.Generator) -> Picture:
        with self._lock:
            return Picture.from_image(passed(self.autoencoder, image))

    @cached_property
    def autoencoder(self) -> Any:
        options = {"subfolder": self.subfolder} if self.subfolder else {}
        return load_autoencoder(self.checkpoint or str(OWN), **options)

    def missing(self) -> list[str]:
        lacking = super().missing()
        if not self.checkpoint and not weights_sha256(OWN):
            lacking.append(f"the autoencoder's weights are not in {OWN}: use a full checkout")
        return lacking

    def describe(self) -> dict[str, Any]:
        description = super().describe() | {"checkpoint": self.checkpoint or "own"}
        # Of a hub id the name must do; the file may not even be here yet.
        found = weights_sha256(Path(self.checkpoint or OWN) / self.subfolder)
        return description | ({"weights_sha256": found} if found else {})
