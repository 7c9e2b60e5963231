"""Weights of the networks: fetched once, verified always, never random.

They lie in $CONVERGEBENCH_WEIGHTS, or ~/.cache/convergebench/weights. Nothing
is downloaded unless `fetch` is called.
"""

from __future__ import annotations

from pathlib import Path

from evaluation.weights.base import Status, Weights, WeightsError, folder, only_one
from evaluation.weights.clip import Clip
from evaluation.weights.download import Progress
from evaluation.weights.lpips import Lpips
from evaluation.weights.packages import (
    BrisqueModel,
    CocoDetector,
    DlibFaces,
    EsrganSlim,
    FaceParsing,
    ImageNet,
    NaturalPatches,
    NeuralEraser,
    TextReader,
)

__all__ = ["WEIGHTS", "Progress", "Status", "WeightsError", "fetch", "folder", "locate", "status"]

WEIGHTS: dict[str, Weights] = {
    weights.name: weights
    for weights in (
        Lpips(),
        ImageNet(),
        DlibFaces(),
        FaceParsing(),
        TextReader(),
        CocoDetector(),
        NeuralEraser(),
        EsrganSlim(),
        BrisqueModel(),
        NaturalPatches(),
        Clip(),
    )
}


def status() -> list[Status]:
    """How each set of weights stands on this machine; verifies files, downloads nothing."""
    return [weights.status() for weights in WEIGHTS.values()]


def locate(name: str) -> tuple[Path, str]:
    """The verified file and its SHA-256; WeightsError names what is missing and the ways to it."""
    return _named(name).locate()


def fetch(name: str, *, file: Path | None = None, progress: Progress | None = None) -> Path:
    """The verified file of these weights, fetched if it is not here yet.

    `file` is a local copy, or any file they can be made of. `progress(stage, done, total)`
    is told of the bytes as they arrive; total is None where it is not known. Safe to call
    from several processes at once. WeightsError says what was tried and what else can be done.
    """
    weights = _named(name)
    try:
        return weights.locate()[0]
    except WeightsError:
        pass
    try:
        with only_one(name):
            return weights.fetch(file, progress or (lambda stage, done, total: None))
    except OSError as error:
        raise WeightsError(f"{weights.file} cannot be written: {error}") from error


def _named(name: str) -> Weights:
    try:
        return WEIGHTS[name]
    except KeyError:
        known = ", ".join(WEIGHTS)
        raise WeightsError(f"there are no weights called {name!r}; known are {known}") from None
