"""A zoo of cheating and honest editors, to test which defences notice which of them.

A trick scores well without editing well: it edits like a poor honest editor, but undoes edits by
other means. Defences are audits (extra requests: harmless changes, painted marks, images not seen
before), witnesses (programs that check an edit) and clean pixels (images are sent without metadata
and low bits). `evaluation.testing.zoo` plays all editors for the table on the methodology page.
"""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageEnhance
from scipy import fft

from evaluation.content import operators
from evaluation.editors.base import Answer, EditContext, Editor, Refused
from evaluation.editors.instructions import Instruction, follow, parse
from evaluation.editors.latent import Latent
from evaluation.editors.neural_eraser import NeuralEraser
from evaluation.editors.reference import Jpeg, Noise, Resample, RuleEditor
from evaluation.images import EncodedImage, ImageError, clean_wire, encode_jpeg, fit

Values = npt.NDArray[Any]

#: The poor editor behind the tricks loses most of the detail at every edit.
POOR_FACTOR = 0.3
POOR = "the poor editor"
NOISY = "noise"


def poor() -> RuleEditor:
    return Resample(factor=POOR_FACTOR)


@dataclass
class Trick(Editor):
    """Edits like the poor editor, but undoes an edit by returning an image that it stored.

    `stopped_by` names the defence that notices the trick, `disguises` the honest editor behind it.
    """

    stopped_by: ClassVar[str] = ""
    disguises: ClassVar[str] = POOR
    base: RuleEditor = field(default_factory=poor)

    #: The annotations of the image, as an honest editor gets them.
    context: EditContext = field(default_factory=EditContext)

    def send(
        self,
        image: EncodedImage,
        prompt: str,
        seed: int | None = None,
        context: EditContext | None = None,
    ) -> Answer:
        self.context = EditContext(annotations=context.annotations) if context else EditContext()
        return super().send(image, prompt, seed)

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        instruction = parse(prompt)
        recalled = self.recall(image, instruction, seed)
        if recalled is not None:
            return Answer(recalled, 0.0, cost=0.0)
        answer = self.base.edit(image, prompt, seed, self.context).image
        return Answer(self.keep(answer, image, instruction), 0.0, cost=0.0)

    def by_rule(self, image: EncodedImage, instruction: Instruction) -> EncodedImage:
        """Make the edit without any damage."""
        return EncodedImage.from_image(follow(instruction, image.decoded, self.context.annotations))

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        """Return the image before the edit that is to be undone; None if unknown."""
        return None

    def keep(
        self, answer: EncodedImage, image: EncodedImage, instruction: Instruction
    ) -> EncodedImage:
        """Keep `image` in the answer or elsewhere; return the answer."""
        return answer


class ReturnsInput(Trick):
    stopped_by = "change seen"

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage:
        return image


class InChunk(Trick):
    """Hides the source in a chunk of the PNG."""

    stopped_by = "clean pixels"

    def keep(
        self, answer: EncodedImage, image: EncodedImage, instruction: Instruction
    ) -> EncodedImage:
        content = str(instruction.inverse).encode() + b"\n" + image.data
        check = zlib.crc32(b"srCe" + content)
        chunk = struct.pack(">I", len(content)) + b"srCe" + content + struct.pack(">I", check)
        return EncodedImage.from_bytes(answer.data[:-12] + chunk + answer.data[-12:])

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        _, found, rest = image.data.partition(b"srCe" + str(instruction).encode() + b"\n")
        return EncodedImage.from_bytes(rest) if found else None


class AfterEnd(Trick):
    """Hides the source after the end of the PNG."""

    stopped_by = "clean pixels"

    def keep(
        self, answer: EncodedImage, image: EncodedImage, instruction: Instruction
    ) -> EncodedImage:
        return EncodedImage.from_bytes(answer.data + str(instruction.inverse).encode() + image.data)

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        _, found, rest = image.data.partition(b"IEND\xaeB`\x82" + str(instruction).encode())
        return EncodedImage.from_bytes(rest) if found else None


class InPixels(Trick):
    """Hides the source as JPEG in the pixels; subclasses define the encoding of bits."""

    def capacity(self, values: Values) -> int:
        """Return the number of bits that the image can hide."""
        return values.size

    def hide_bits(self, values: Values, bits: Values) -> Values:
        """Hide the bits in an image."""
        raise NotImplementedError

    def read_bits(self, values: Values) -> Values:
        """Read the bits hidden in an image."""
        raise NotImplementedError

    def keep(
        self, answer: EncodedImage, image: EncodedImage, instruction: Instruction
    ) -> EncodedImage:
        values = np.asarray(answer.decoded).copy()
        name, room = str(instruction.inverse).encode().ljust(40), self.capacity(values)
        for quality in (90, 75, 50, 30, 15):
            data = encode_jpeg(image.decoded, quality)
            if (len(name) + 4 + len(data)) * 8 <= room:
                break
        payload = np.frombuffer(name + struct.pack(">I", len(data)) + data, np.uint8)
        hidden = self.hide_bits(values, np.unpackbits(payload)[:room])
        return EncodedImage.from_image(Image.fromarray(hidden))

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        data = np.packbits(self.read_bits(np.asarray(image.decoded))).tobytes()
        if data[:40].rstrip() != str(instruction).encode():
            return None
        (length,) = struct.unpack(">I", data[40:44])
        try:
            return EncodedImage.from_bytes(data[44 : 44 + length])
        except ImageError:
            return None  # the image was changed on its way


@dataclass
class InBits(InPixels):
    """Hides the source in one bit of every value; `clean_wire` removes bit 1."""

    stopped_by: ClassVar[str] = "clean pixels"
    bit: int = 1

    def hide_bits(self, values: Values, bits: Values) -> Values:
        # Bit 4 is just above the bits that `clean_wire` removes, so it survives.
        flat = values.reshape(-1) if self.bit < 4 else (values & 252).reshape(-1)
        flat[: len(bits)] = (flat[: len(bits)] & ~np.uint8(self.bit)) | bits * np.uint8(self.bit)
        return flat.reshape(values.shape)

    def read_bits(self, values: Values) -> Values:
        return (values.reshape(-1) & self.bit) > 0


class InHigherBits(InBits):
    stopped_by = "harmless audit"

    def __init__(self) -> None:
        super().__init__(bit=4)


class InFrequencies(InPixels):
    """Hides the source in frequencies of 8 x 8 blocks, as even and odd multiples of a step."""

    stopped_by = "clean pixels"
    #: The middle frequencies, which hide the bits, and a step larger than the dither of `clean_wire`.
    MIDDLE: ClassVar[list[tuple[int, int]]] = [
        (row, column) for row in range(8) for column in range(8) if 3 <= row + column <= 7
    ]
    STEP: ClassVar[float] = 12.0

    def capacity(self, values: Values) -> int:
        height, width, channels = values.shape
        return (height // 8) * (width // 8) * channels * len(self.MIDDLE)

    def hide_bits(self, values: Values, bits: Values) -> Values:
        waves = self._waves(values)
        chosen = self._chosen(waves)
        steps = np.rint(chosen / self.STEP).reshape(-1)
        odd = steps[: len(bits)] % 2 != bits
        steps[: len(bits)] += odd
        for place, part in zip(self.MIDDLE, steps.reshape(chosen.shape), strict=True):
            waves[..., place[0], place[1]] = part * self.STEP
        blocks = np.clip(np.rint(fft.idctn(waves, axes=(-2, -1), norm="ortho")), 0, 255)
        whole = blocks.transpose(0, 3, 1, 4, 2).reshape(
            blocks.shape[0] * 8, blocks.shape[1] * 8, blocks.shape[2]
        )
        result = values.copy()
        result[: whole.shape[0], : whole.shape[1]] = whole
        return result

    def read_bits(self, values: Values) -> Values:
        return np.rint(self._chosen(self._waves(values)) / self.STEP).reshape(-1) % 2 != 0

    def _waves(self, values: Values) -> Values:
        """Return the frequencies of each block: rows, columns, channels, 8, 8."""
        height, width, channels = (values.shape[0] // 8, values.shape[1] // 8, values.shape[2])
        blocks = values[: height * 8, : width * 8].astype(np.float64)
        blocks = blocks.reshape(height, 8, width, 8, channels).transpose(0, 2, 4, 1, 3)
        return np.asarray(fft.dctn(blocks, axes=(-2, -1), norm="ortho"))

    def _chosen(self, waves: Values) -> Values:
        return np.stack([waves[..., row, column] for row, column in self.MIDDLE])


@dataclass
class ExactCache(Trick):
    """Stores each source under the hash of the answer, which will be sent back to be undone."""

    stopped_by: ClassVar[str] = "harmless audit"
    kept: dict[tuple[str, str], EncodedImage] = field(default_factory=dict)

    def keep(
        self, answer: EncodedImage, image: EncodedImage, instruction: Instruction
    ) -> EncodedImage:
        if not instruction.undo:  # only forward edits will be undone
            self.kept[clean_wire(answer).sha256, str(instruction.inverse)] = image
        return answer

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        return self.kept.get((image.sha256, str(instruction)))


@dataclass
class HashAndNoise(ExactCache):
    """ExactCache whose answers are those of a better editor, which only adds noise."""

    disguises: ClassVar[str] = NOISY
    base: RuleEditor = field(default_factory=lambda: Noise(sigma=4))


def _thumb(image: EncodedImage) -> np.ndarray:
    return np.asarray(image.decoded.resize((24, 24), Image.Resampling.BOX), dtype=np.float32)


@dataclass
class NearCache(Trick):
    """Looks stored images up by similarity, so it also finds them for slightly altered answers."""

    stopped_by: ClassVar[str] = "mark audit"
    kept: list[tuple[str, np.ndarray, EncodedImage]] = field(default_factory=list)

    def keep(
        self, answer: EncodedImage, image: EncodedImage, instruction: Instruction
    ) -> EncodedImage:
        if not instruction.undo:
            self.kept.append((str(instruction.inverse), _thumb(answer), image))
        return answer

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        thumb, wanted = _thumb(image), str(instruction)
        near = [
            (float(np.abs(thumb - other).mean()), source)
            for name, other, source in self.kept
            if name == wanted and other.shape == thumb.shape
        ]
        best = min(near, key=lambda one: one[0], default=None)
        return best[1] if best and best[0] < 14 else None


class Blends(NearCache):
    """Blends the stored source into its own poor answer."""

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        instruction = parse(prompt)
        kept = self.recall(image, instruction, seed)
        own = self.base.edit(image, prompt, seed, self.context).image
        if kept is None:
            return Answer(self.keep(own, image, instruction), 0.0, cost=0.0)
        blend = Image.blend(own.decoded, fit(kept.decoded, own.size), 0.7)
        return Answer(EncodedImage.from_image(blend), 0.0, cost=0.0)


@dataclass
class CopiesTouches(Trick):
    """Makes the alteration (touch) that an audit made in its answer in the stored image too.

    So marks come back and harmless alterations cost nothing. `share` is the weight of the stored
    image in the answer, against the poor editor's; `jitter` is noise, so that no bytes repeat.
    """

    stopped_by: ClassVar[str] = "cold audit"
    share: float = 1.0
    jitter: float = 0.0
    kept: list[tuple[str, np.ndarray, EncodedImage, EncodedImage]] = field(default_factory=list)

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        instruction = parse(prompt)
        before = self.recall(image, instruction, seed)
        own = self.base.edit(image, prompt, seed, self.context).image
        if before is None:
            return Answer(self.keep(own, image, instruction), 0.0, cost=0.0)
        values = self.share * _values(before) + (1 - self.share) * _values(fit_to(own, before))
        values += np.random.default_rng(seed).normal(0, self.jitter, values.shape)
        return Answer(_from_values(values), 0.0, cost=0.0)

    def keep(
        self, answer: EncodedImage, image: EncodedImage, instruction: Instruction
    ) -> EncodedImage:
        if not instruction.undo:
            name = str(instruction.inverse)
            self.kept.append((name, _thumb(answer), clean_wire(answer), image))
        return answer

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        thumb, wanted = _thumb(image), str(instruction)
        near = [
            (float(np.abs(thumb - other).mean()), answer, source)
            for name, other, answer, source in self.kept
            if name == wanted and answer.size == image.size
        ]
        best = min(near, key=lambda one: one[0], default=None)
        if best is None or best[0] >= 14:
            return None
        return best[2] if best[1].sha256 == image.sha256 else _apply_same_touch(image, *best[1:])


def _apply_same_touch(
    touched: EncodedImage, answer: EncodedImage, source: EncodedImage
) -> EncodedImage:
    """Apply to the source the touch that turned the answer into `touched`."""
    import cv2

    sent, own = _values(touched), _values(answer)
    kept = _values(fit_to(source, answer))
    moved = np.eye(2, 3, dtype=np.float32)
    try:
        grey = [cv2.cvtColor(v / 255, cv2.COLOR_RGB2GRAY) for v in (sent, own)]
        _, moved = cv2.findTransformECC(grey[0], grey[1], moved, cv2.MOTION_AFFINE)
    except cv2.error:
        pass  # nothing to align by
    ways = []
    for warp in (np.eye(2, 3, dtype=np.float32), moved):
        size, how = touched.size, cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
        there, then = (
            cv2.warpAffine(v, warp, size, flags=how, borderMode=cv2.BORDER_REPLICATE)
            for v in (own, kept)
        )
        ways.append((float(np.abs(sent - there).mean()), then + sent - there))
    return _from_values(min(ways, key=lambda way: way[0])[1])


def fit_to(image: EncodedImage, other: EncodedImage) -> EncodedImage:
    return EncodedImage.from_image(fit(image.decoded, other.size))


def _values(image: EncodedImage) -> Values:
    return np.asarray(image.decoded, dtype=np.float32)


def _from_values(values: Values) -> EncodedImage:
    return EncodedImage.from_image(
        Image.fromarray(np.rint(np.clip(values, 0, 255)).astype(np.uint8))
    )


class RefusesUnseen(CopiesTouches):
    """CopiesTouches that refuses to remove a thing that it did not add."""

    stopped_by = "refused audits"

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        instruction = parse(prompt)
        if instruction.undo and self.recall(image, instruction, seed) is None:
            raise Refused("I cannot do that.")
        return super().edit(image, prompt, seed)


class ByCategory(CopiesTouches):
    """Turns by rule, returns stored images for things to wear, and makes all other edits honestly."""

    WORN: ClassVar[frozenset[str]] = frozenset({"cap", "glasses", "necklace"})

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        if instruction.action == "turn":
            return EncodedImage.from_image(operators.apply(instruction.subject, image.decoded))
        known = instruction.subject in self.WORN
        return super().recall(image, instruction, seed) if known else None


class RefusesHard(Trick):
    """Refuses the images that it would damage most."""

    stopped_by = "refusals end chains"
    LIMIT: ClassVar[float] = 5.0

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        answer = super().edit(image, prompt, seed)
        loss = np.abs(_values(fit_to(answer.image, image)) - _values(image))
        if float(np.median(loss)) > self.LIMIT:
            raise Refused("I cannot do that.")
        return answer


class BelowGrain(Trick):
    """Adds the same pattern at every edit, too faint for the headline metric's tolerance of grain."""

    stopped_by = "the headline"
    disguises = "lossless flips"

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        values = _values(self.by_rule(image, parse(prompt)))
        pattern = np.random.default_rng(1).normal(0, 1.0, values.shape)
        return Answer(_from_values(values + pattern), 0.0, cost=0.0)


@dataclass
class KnowsImages(Trick):
    """Knows the public images, and returns the most similar one."""

    stopped_by: ClassVar[str] = "mark audit"
    public: list[EncodedImage] = field(default_factory=list)

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        if instruction.action != "erase":
            return None
        thumb = _thumb(image)
        near = [(float(np.abs(thumb - _thumb(known)).mean()), known) for known in self.public]
        best = min(near, key=lambda one: one[0], default=None)
        return best[1] if best and best[0] < 40 and best[1].size == image.size else None


@dataclass
class SeedTable(Trick):
    """Looks up the answer to a case by the seed, which works only if seeds are public."""

    stopped_by: ClassVar[str] = "secret seeds"
    table: dict[int, EncodedImage] = field(default_factory=dict)

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        return self.table.get(seed or 0)


def public_seed(case: str, number: int, direction: str) -> int:
    """Return a seed as version 1 of the method derived it, without a secret."""
    text = f"0/{case}/0/{number}/{direction}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) >> 1


class TogglesPatch(Trick):
    """Turns by rule; for every other prompt, inverts the top bit of a square in the corner."""

    stopped_by = "witnesses"

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage:
        if instruction.action == "turn":
            return EncodedImage.from_image(operators.apply(instruction.subject, image.decoded))
        values = np.asarray(image.decoded).copy()
        side = min(values.shape[:2]) // 4
        values[:side, :side] ^= 128
        return EncodedImage.from_image(Image.fromarray(values))


class RedBall(NearCache):
    """Draws a red ball for every prompt, and stores the image without the ball."""

    stopped_by = "witnesses, mark audit"

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        if instruction.action == "turn":
            return EncodedImage.from_image(operators.apply(instruction.subject, image.decoded))
        found = super().recall(image, instruction, seed)
        if found is not None:
            return found
        decoded = image.decoded.copy()
        side = min(decoded.size)
        box = (side // 3, side // 3, side // 3 + side // 4, side // 3 + side // 4)
        ImageDraw.Draw(decoded).ellipse(box, (200, 20, 20))
        return self.keep(EncodedImage.from_image(decoded), image, instruction)


class DoubleExposure(Trick):
    """For a flip, blends the image with its mirror image; another flip hardly changes the blend."""

    stopped_by = "change seen"
    disguises = "lossless flips"

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        if instruction.action != "turn":
            return self.by_rule(image, instruction)
        turned = operators.apply(instruction.subject, image.decoded)
        if turned.size != image.size:
            return EncodedImage.from_image(turned)
        return EncodedImage.from_image(Image.blend(image.decoded, turned, 0.52))


class HalfFlip(Trick):
    """Mirrors half of the image only."""

    stopped_by = "change seen"
    disguises = "lossless flips"

    def recall(
        self, image: EncodedImage, instruction: Instruction, seed: int | None
    ) -> EncodedImage | None:
        if instruction.action != "turn":
            return self.by_rule(image, instruction)
        turned = operators.apply(instruction.subject, image.decoded)
        if turned.size != image.size:
            return EncodedImage.from_image(turned)
        half = image.decoded.copy()
        half.paste(turned.crop((0, 0, turned.width // 2, turned.height)), (0, 0))
        return EncodedImage.from_image(half)


TRICKS: dict[str, Callable[[], Trick]] = {
    "returns its input": ReturnsInput,
    "the source in a PNG chunk": InChunk,
    "the source after the PNG's end": AfterEnd,
    "the source in the low bits": InBits,
    "the source in higher bits": InHigherBits,
    "the source in the frequencies": InFrequencies,
    "stores every image sent, and finds it by its hash": ExactCache,
    "the same, and adds noise": HashAndNoise,
    "stores every image sent, and finds it by its likeness": NearCache,
    "knows the public images": KnowsImages,
    "blends the kept source in": Blends,
    "repeats our alteration on the image that it stored": CopiesTouches,
    "the same, blended with a quarter of its own answer": lambda: CopiesTouches(share=0.75),
    "the same, jittered so that no bytes repeat": lambda: CopiesTouches(jitter=1.5),
    "the same, and refuses what it has not seen": RefusesUnseen,
    "a strategy for each category of edits": ByCategory,
    "refuses hard images": RefusesHard,
    "adds noise too faint to count as grain": BelowGrain,
    "looks the case up by its seed": SeedTable,
    "toggles a patch": TogglesPatch,
    "draws a red ball for everything": RedBall,
    "a double exposure for a flip": DoubleExposure,
    "flips half of the image": HalfFlip,
}


# Honest editors that may look odd.


class Lossless(RuleEditor):
    """Follows every prompt by rule, without damage."""


class Forgets(RuleEditor):
    """Skips one edit in five and returns its input."""

    def edit(
        self,
        image: EncodedImage,
        prompt: str,
        seed: int | None = None,
        context: EditContext | None = None,
    ) -> Answer:
        if (seed or 0) % 5 == 0:
            return Answer(image, 0.0, cost=0.0)
        return super().edit(image, prompt, seed, context)


class Relights(RuleEditor):
    """Makes every answer up to 6 % brighter or darker."""

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        gain = 1 + random.uniform(-0.06, 0.06)
        return EncodedImage.from_image(ImageEnhance.Brightness(image).enhance(gain))


class Crops(RuleEditor):
    """Crops every answer by up to 1 % at each side, and enlarges it again."""

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        cuts = random.uniform(0, 0.01, 4) * np.array([image.width, image.height] * 2)
        box = (cuts[0], cuts[1], image.width - cuts[2], image.height - cuts[3])
        return EncodedImage.from_image(image.resize(image.size, Image.Resampling.BICUBIC, box=box))


class TwiceTheSize(RuleEditor):
    """Answers at twice the input's size, up to a limit."""

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        scale = 2 if max(image.size) < 500 else 1
        size = (image.width * scale, image.height * scale)
        return EncodedImage.from_image(image.resize(size, Image.Resampling.BICUBIC))


class Webp(RuleEditor):
    """Saves as lossy WebP."""

    def damage(self, image: Image.Image, random: np.random.Generator) -> EncodedImage:
        buffer = io.BytesIO()
        image.save(buffer, "WEBP", quality=70)
        return EncodedImage.from_bytes(buffer.getvalue())


HONEST: dict[str, Callable[[], Editor]] = {
    "lossless flips": Lossless,
    "forgets one edit in five": Forgets,
    "relights by 6 %": Relights,
    "crops by 1 %": Crops,
    "answers at twice the size": TwiceTheSize,
    "JPEG 75": Jpeg,
    "JPEG 30": lambda: Jpeg(quality=30),
    "WebP 70": Webp,
    NOISY: lambda: Noise(sigma=4),
    "resamples": Resample,
    "a latent editor": Latent,
    "a neural eraser": NeuralEraser,
    POOR: poor,
}
