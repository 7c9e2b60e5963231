"""Weights of the networks: fetched once, verified always, never random.

They are in $CONVERGEBENCH_WEIGHTS, or ~/.cache/convergebench/weights. Only `fetch` downloads.
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
    """Return the state of each set of weights on this machine; downloads nothing."""
    return [WEIGHTS.load(name).status() for name in WEIGHTS]


def problem(name: str) -> str:
    """Return the problem with these weights and the remedy; "" when they are ready."""
    return WEIGHTS.load(name).status().problem


def locate(name: str) -> tuple[Path, str]:
    """Return the verified file and its SHA-256. Raises WeightsError."""
    return WEIGHTS.load(name).locate()


def fetch(name: str, *, file: Path | None = None, progress: Progress | None = None) -> Path:
    """Return the verified file of these weights, fetched if it is missing.

    `file` is a local copy, or any file they can be made of. `progress(stage, done, total)`
    is called as the bytes arrive; total is None if unknown. Safe to call from several
    processes at once. Raises WeightsError with the remaining ways.
    """
    return WEIGHTS.load(name).fetch(file, progress or (lambda stage, done, total: None))


class Requirements:
    """Python packages and weights that must be installed before something can run."""

    #: Importable modules, each with its package.
    modules: ClassVar[dict[str, str]] = {}
    #: A name of evaluation.weights; empty without any.
    weights: ClassVar[str] = ""

    @property
    def weights_sha256(self) -> str | None:
        """The hash of the weights in use; None without any."""
        return WEIGHTS.load(self.weights).status().sha256 if self.weights else None

    def missing(self) -> list[str]:
        """Name the packages and weights to install first; empty when ready."""
        problems = [
            f"the Python package {package} is not installed: {INSTALL}"
            for module, package in self.modules.items()
            if importlib.util.find_spec(module) is None
        ]
        lacking = problem(self.weights) if self.weights else ""
        return [*problems, lacking] if lacking else problems
