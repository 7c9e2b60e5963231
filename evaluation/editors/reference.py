"""The reference editors: they follow prompts by fixed rules, then do one known kind of damage.

They run like every other model and are the benchmark's self-test: the oracle must keep everything,
the no-op and the blank card must be detected, and the others must fail in a known order.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, is_dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Interval
from PIL import Image

from evaluation.editors.base import Answer, EditContext, Editor
from evaluation.editors.failures import misconfigured
from evaluation.editors.instructions import (
    KEEP,
    Instruction,
    Mask,
    fill_in,
    follow,
    hole_margin,
    parse,
    widened,
)
from evaluation.editors.sizes import TIERS, at_tier
from evaluation.images import EncodedImage, blank_card, clean_wire, encode_jpeg, fit
from evaluation.weights import Requirements

# Increment VERSION whenever answers change, so that no curve mixes versions.
VERSION = 2
BAND_ROWS = 256
#: CANDIDATES: from how many places LosesThings selects the busiest. THING_SHARE: the size of the
#: region that HueDrift changes, as a share of the shorter side.
CANDIDATES, THING_SHARE = 6, 0.16


class RuleEditor(Requirements, Editor):
    """An editor that follows prompts by fixed rules; each subclass defines its damage."""

    modules: ClassVar[dict[str, str]] = {
        "cv2": "opencv-python-headless",
        "resvg_py": "resvg-py",
    }

    def send(
        self,
        image: EncodedImage,
        prompt: str,
        seed: int | None = None,
        context: EditContext | None = None,
    ) -> Answer:
        context = context or EditContext()
        if unable := self.unable(context.settings):
            raise misconfigured("; ".join(unable))
        return self.edit(clean_wire(image), prompt, seed, context)

    @property
    def tiers(self) -> Collection[str]:
        return tuple(TIERS)

    def edit(
        self,
        image: EncodedImage,
        prompt: str,
        seed: int | None = None,
        context: EditContext | None = None,
    ) -> Answer:
        started = time.perf_counter()
        if seed is None:
            seed = int(hashlib.sha256(f"{image.sha256}/{prompt}".encode()).hexdigest()[:8], 16)
        instruction, context = self.read_prompt(prompt, seed), context or EditContext()
        if tier := context.settings.size:
            image = EncodedImage.from_image(fit(image.decoded, at_tier(image.size, tier)))
        answer = self.answer(image, instruction, seed, context)
        return Answer(
            answer, time.perf_counter() - started, cost=0.0, notes={"understood": str(instruction)}
        )

    def read_prompt(self, prompt: str, seed: int) -> Instruction:
        """Return the instruction in a prompt, as this editor understands it."""
        return parse(prompt)

    def answer(
        self, image: EncodedImage, instruction: Instruction, seed: int, context: EditContext
    ) -> EncodedImage:
        edited = follow(instruction, image.decoded, context.annotations)
        return self.damage(edited, np.random.default_rng(seed))

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        """Return the edited image after the editor's damage."""
        return EncodedImage.from_image(image)

    def describe(self) -> dict[str, Any]:
        options: dict[str, Any] = (
            asdict(self) if is_dataclass(self) and not isinstance(self, type) else {}
        )
        if self.weights:
            options["weights_sha256"] = self.weights_sha256
        return {"rules": VERSION, **options}


class Oracle(RuleEditor):
    """Undoes every edit exactly, because it is also given the image before the edit."""

    def answer(
        self, image: EncodedImage, instruction: Instruction, seed: int, context: EditContext
    ) -> EncodedImage:
        return context.before or super().answer(image, instruction, seed, context)


class NoOp(RuleEditor):
    """Returns its input byte for byte and ignores the prompt."""

    modules: ClassVar[dict[str, str]] = {}

    def edit(
        self,
        image: EncodedImage,
        prompt: str,
        seed: int | None = None,
        context: EditContext | None = None,
    ) -> Answer:
        return Answer(image, 0.0, cost=0.0)


class BlankCard(RuleEditor):
    """Returns a card of the image's mean colour."""

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        return EncodedImage.from_image(blank_card(image))


@dataclass
class Thumbnail(RuleEditor):
    """Shrinks the image to a thumbnail and back."""

    side: Annotated[int, Interval(ge=1, le=4096)] = 16

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        scale = self.side / max(image.size)
        small = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        return EncodedImage.from_image(_resize_and_restore(image, small))


@dataclass
class Jpeg(RuleEditor):
    """Saves the image as JPEG."""

    quality: Annotated[int, Interval(ge=1, le=100)] = 75

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        return EncodedImage.from_bytes(encode_jpeg(image, self.quality))


@dataclass
class Noise(RuleEditor):
    """Adds Gaussian noise with a standard deviation of `sigma` (of 255)."""

    sigma: Annotated[float, Interval(ge=0, le=255)] = 2.0

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        return EncodedImage.from_image(self.noisy(image, random))

    def noisy(self, image: Image.Image, random: np.random.Generator) -> Image.Image:
        values = np.array(image)
        # In bands of rows: noise for a large image at once would take hundreds of megabytes.
        for top in range(0, image.height, BAND_ROWS):
            band = values[top : top + BAND_ROWS]
            noisy = np.rint(band + random.normal(0, self.sigma, band.shape))
            band[:] = np.clip(noisy, 0, 255)
        return Image.fromarray(values)


@dataclass
class Misreader(Noise):
    """Adds noise, and ignores a share of the long prompts.

    Of the prompts with more than `words` words, the share `share` is ignored. The seed decides
    which ones.
    """

    words: Annotated[int, Interval(ge=0, le=1000)] = 20
    share: Annotated[float, Interval(ge=0, le=1)] = 1.0

    def read_prompt(self, prompt: str, seed: int) -> Instruction:
        # A separate generator, so that the noise is the same whether the prompt is misread or not.
        sample = np.random.default_rng([seed, self.words]).random()
        misread = len(prompt.split()) > self.words and sample < self.share
        return Instruction(KEEP) if misread else super().read_prompt(prompt, seed)


@dataclass
class Resample(RuleEditor):
    """Resizes the image to `factor` of its size and back."""

    factor: Annotated[float, Interval(gt=0, le=1)] = 7 / 8

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        small = (
            max(1, round(image.width * self.factor)),
            max(1, round(image.height * self.factor)),
        )
        return EncodedImage.from_image(_resize_and_restore(image, small))


@dataclass
class ColourDrift(RuleEditor):
    """Makes the image a little greener, by `step` (of 255)."""

    step: Annotated[int, Interval(ge=-255, le=255)] = 2

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        red, green, blue = image.split()
        drifted = green.point([min(max(v + self.step, 0), 255) for v in range(256)])
        return EncodedImage.from_image(Image.merge("RGB", (red, drifted, blue)))


@dataclass
class LosesThings(RuleEditor):
    """Erases a small square at each edit, away from the edit itself.

    The square's side is `share` of the image's shorter side. The seed selects several places, and
    the place with the most detail is erased.
    """

    share: Annotated[float, Interval(gt=0, le=0.5)] = 0.06

    def answer(
        self, image: EncodedImage, instruction: Instruction, seed: int, context: EditContext
    ) -> EncodedImage:
        edited = follow(instruction, image.decoded, context.annotations)
        changed = np.zeros(edited.size[::-1], dtype=bool)
        if edited.size == image.size:
            changed = (np.asarray(edited) != np.asarray(image.decoded)).any(axis=2)
            changed = widened(changed, 2 * hole_margin(edited))
        return self.erased(edited, np.random.default_rng(seed), changed)

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        return self.erased(image, random, np.zeros(image.size[::-1], dtype=bool))

    def erased(
        self, image: Image.Image, random: np.random.Generator, protected: Mask
    ) -> EncodedImage:
        values, side = np.asarray(image), max(1, round(self.share * min(image.size)))
        room = [image.height - side + 1, image.width - side + 1]
        places = [
            np.s_[top : top + side, left : left + side]
            for top, left in random.integers(0, room, (CANDIDATES, 2)).tolist()
        ]
        place = max(places, key=lambda at: (not protected[at].any(), values[at].std((0, 1)).sum()))
        mask = np.zeros(values.shape[:2], dtype=bool)
        mask[place] = True
        return EncodedImage.from_image(fill_in(image, mask))


@dataclass
class HueDrift(RuleEditor):
    """Rotates the hue around the most colourful place by `step` degrees."""

    step: Annotated[float, Interval(ge=-180, le=180)] = 3.0

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        import cv2

        values = np.array(image)
        # Rotating the hue does not change the chroma, so the next edit selects the same place.
        chroma = (values.max(axis=2) - values.min(axis=2)).astype(np.float32)
        side = max(1, round(THING_SHARE * min(image.size)))
        mean = cv2.blur(chroma, (side, side), borderType=cv2.BORDER_CONSTANT)
        row, column = (int(at) for at in np.unravel_index(int(mean.argmax()), mean.shape))
        top, left = max(0, row - 2 * side), max(0, column - 2 * side)
        around = np.s_[top : row + 2 * side, left : column + 2 * side]
        part = values[around]
        down, right = np.ogrid[: part.shape[0], : part.shape[1]]
        distance = (down - row + top) ** 2 + (right - column + left) ** 2
        step = self.step * np.exp(-distance / np.float32(side**2))
        hue, lightness, colour = cv2.split(cv2.cvtColor(np.float32(part) / 255, cv2.COLOR_RGB2HLS))
        hue = ((hue + step) % 360).astype(np.float32)
        turned = cv2.cvtColor(cv2.merge([hue, lightness, colour]), cv2.COLOR_HLS2RGB)
        values[around] = np.rint(turned * 255).astype(np.uint8)
        return EncodedImage.from_image(Image.fromarray(values))


def _resize_and_restore(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    return image.resize(size, Image.Resampling.BICUBIC).resize(image.size, Image.Resampling.BICUBIC)
