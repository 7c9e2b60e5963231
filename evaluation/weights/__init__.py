"""Weights of the networks, fetched once and verified at every use.

The folder is $CONVERGEBENCH_WEIGHTS, or ~/.cache/convergebench/weights. Only `fetch` downloads.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import ClassVar

from evaluation.registry import Registry
from evaluation.weights.base import Progress, Status, Weights, WeightsError, folder

__all__ = [
    "WEIGHTS",
    "Progress",
    "Requirements",
    "Status",
    "WeightsError",
    "fetch",
    "folder",
    "locate",
    "problem",
    "status",
]

INSTALL = "pip install 'convergebench[worker]'"

WEIGHTS: Registry[Weights] = Registry(
    "set of weights",
    WeightsError,
    {
        "dinov2-small": "evaluation.weights.dinov2:Dinov2Small",
        "lpips-alex": "evaluation.weights.lpips:Lpips",
        "imagenet": "evaluation.weights.packages:ImageNet",
        "dlib-faces": "evaluation.weights.packages:DlibFaces",
        "face-parsing": "evaluation.weights.packages:FaceParsing",
        "text-reader": "evaluation.weights.packages:TextReader",
        "coco-detector": "evaluation.weights.packages:CocoDetector",
        "neural-eraser": "evaluation.weights.packages:NeuralEraser",
        "esrgan-slim": "evaluation.weights.packages:EsrganSlim",
        "brisque": "evaluation.weights.packages:BrisqueModel",
        "niqe": "evaluation.weights.packages:NaturalPatches",
        "clip": "evaluation.weights.packages:Clip",
    },
)


def status() -> list[Status]:
    """Return the status of each set of weights on this machine, without a download."""
    return [WEIGHTS.load(name).status() for name in WEIGHTS]


def problem(name: str) -> str:
    """Return the problem with these weights and its remedy; "" if they are ready."""
    return WEIGHTS.load(name).status().problem


def locate(name: str) -> tuple[Path, str]:
    """Verify the file; return it and its SHA-256. Raises WeightsError."""
    return WEIGHTS.load(name).locate()


def fetch(name: str, *, file: Path | None = None, progress: Progress | None = None) -> Path:
    """Fetch the file of these weights if it is missing; verify and return it.

    `file` is a local copy, or a local file to convert. `progress(stage, done, total)` is called
    during a download; `total` is None if unknown. Several processes may call this function at once.
    Raises WeightsError, which names the remedies.
    """
    return WEIGHTS.load(name).fetch(file, progress or (lambda stage, done, total: None))


class Requirements:
    """Mixin: the Python packages and weights that a class needs."""

    #: Modules to import, each with the package that installs it.
    modules: ClassVar[dict[str, str]] = {}
    #: A name in WEIGHTS; empty if no weights are needed.
    weights: ClassVar[str] = ""

    @property
    def weights_sha256(self) -> str | None:
        """The SHA-256 of the weights; None if none are needed or ready."""
        return WEIGHTS.load(self.weights).status().sha256 if self.weights else None

    def missing(self) -> list[str]:
        """Return which packages and weights to install first; empty when ready."""
        problems = [
            f"the Python package {package} is not installed: {INSTALL}"
            for module, package in self.modules.items()
            if importlib.util.find_spec(module) is None
        ]
        if self.weights and (unready := problem(self.weights)):
            problems.append(unready)
        return problems
