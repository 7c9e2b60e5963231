"""Folders with the images of a chain: three trips in which a hat is added and removed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageFilter

from evaluation.content.suites import EditPair
from evaluation.editors.drawings import draw
from evaluation.images import EncodedImage
from evaluation.testing.reference_images import small, worn

TRIPS = 3
HAT = EditPair("hat", "accessories", "Add a hat.", "Remove the hat.", "local", object="hat")


@dataclass(frozen=True)
class HatChain:
    """The folder of a chain, with its expected results."""

    folder: Path
    #: Retention by PSNR after the first and the last trip.
    kept: tuple[float, float]
    #: Usable trips by SSIM.
    ends: float

    @property
    def source(self) -> EncodedImage:
        return self._read("I0_source")

    @property
    def edited(self) -> list[EncodedImage]:
        return [self._read(f"I{number}_forward") for number in range(1, TRIPS + 1)]

    @property
    def restored(self) -> list[EncodedImage]:
        return [self._read(f"I{number}_backward") for number in range(1, TRIPS + 1)]

    def _read(self, name: str) -> EncodedImage:
        return EncodedImage.from_bytes((self.folder / f"{name}.png").read_bytes())


def real(shared: Path) -> HatChain:
    """Return the chain of a portrait by a commercial editor."""
    return HatChain(shared / "ecb/flux_portrait_02_hat", kept=(0.87, 0.79), ends=1.4)


def drawn(folder: Path) -> HatChain:
    """Draw a chain of an astronaut: each trip blurs a little and adds noise."""
    image = small(256, 256)
    images = {"I0_source": image}
    for number in range(1, TRIPS + 1):
        images[f"I{number}_forward"] = draw("hat", image)
        image = _worn(image, number)
        images[f"I{number}_backward"] = image
    for name, one in images.items():
        (folder / f"{name}.png").write_bytes(EncodedImage.from_image(one).data)
    return HatChain(folder, kept=(0.99, 0.97), ends=2.0)


def _worn(image: Image.Image, seed: int) -> Image.Image:
    return worn(image.filter(ImageFilter.GaussianBlur(0.7)), 8, seed)
