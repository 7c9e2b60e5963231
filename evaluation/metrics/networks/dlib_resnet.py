"""dlib's face embedding, run by torch: 29 convolutions whose weights are read from dlib's own file.

The packaged dlib has no quick convolutions: it takes 95 ms for a face on one core, torch 12. The
layers are those of dlib's dnn_face_recognition_ex.cpp; a test compares the numbers with dlib's.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics.base import MetricError
from evaluation.torch_compat import one_thread

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float32]

#: The side of the square face that the network is shown.
SIDE = 150
NUMBERS = 128
# The first convolution, then two in each block; a block that goes down halves the sides.
FIRST = 32
BLOCKS = (
    *((32, False),) * 3,
    *((64, True), (64, False), (64, False), (64, False)),
    *((128, True), (128, False), (128, False)),
    *((256, True), (256, False), (256, False)),
    (256, True),
)
# What carries trained numbers, after the length of its name. Layers without any lie between.
TRAINED = re.compile(rb"\x01(?:\x05(con_)\d|\x07(affine_)|\x04(fc_)\d)")
NAMES = {"con_": b"con_4", "affine_": b"affine_", "fc_": b"fc_2"}
INPUT = b"\x01\x15input_rgb_image_sized"
TENSOR = 2  # the version of dlib's format
PIXELS = 256.0  # what dlib divides them by


class NotDlibs(ValueError):
    """Bytes that are not dlib's network, with the reason."""


@dataclass(frozen=True)
class Convolution:
    """A convolution, with the affine layer behind it folded in."""

    kernel: Tensor
    bias: Tensor
    stride: int
    padding: int

    def __call__(self, values: Tensor) -> Tensor:
        from torch.nn.functional import conv2d

        return conv2d(values, self.kernel, self.bias, self.stride, self.padding)


class DlibResnet:
    """The network of a file; it keeps nothing of a face, so threads may share it."""

    def __init__(self, file: Path) -> None:
        import torch

        try:
            reader = _Reader(file.read_bytes())
            means = reader.means()
            self._first = _folded(reader, 3, FIRST, side=7, stride=2)
            self._blocks: list[tuple[Convolution, Convolution]] = []
            channels = FIRST
            for wide, down in BLOCKS:
                entry = _folded(reader, channels, wide, stride=2 if down else 1)
                self._blocks.append((entry, _folded(reader, wide, wide)))
                channels = wide
            last = reader.fully_connected(channels, NUMBERS)
            reader.no_more()
        except NotDlibs as error:
            raise MetricError(f"{file} is not dlib's network of faces: {error}") from error
        self._means = torch.tensor(means).view(1, 3, 1, 1)
        self._last = torch.from_numpy(last)

    def embedding(self, face: NDArray[np.uint8]) -> NDArray[np.float64]:
        """128 numbers of an aligned face, RGB, 150 x 150 pixels."""
        import torch
        from torch.nn.functional import avg_pool2d, max_pool2d

        if face.shape != (SIDE, SIDE, 3):
            raise MetricError(f"a face has the shape {face.shape}, not {SIDE} x {SIDE} x 3")
        with torch.inference_mode(), one_thread():
            # The channels stay last in memory, as the picture has them.
            pixels = torch.from_numpy(face).permute(2, 0, 1)[None].float()
            values = self._first((pixels - self._means).div_(PIXELS)).relu_()
            values = max_pool2d(values, 3, 2)
            for entry, rest in self._blocks:
                made = rest(entry(values).relu_())
                kept = avg_pool2d(values, 2) if entry.stride == 2 else values
                values = _sum(made, kept).relu_()
            numbers: NDArray[np.float64] = (values.mean((2, 3)) @ self._last)[0].double().numpy()
        return numbers


def _sum(made: Tensor, kept: Tensor) -> Tensor:
    """Their sum; what one lacks at the far sides or of channels counts as zero."""
    from torch.nn.functional import pad

    _, channels, high, wide = kept.shape
    lacking = (high - made.shape[2], wide - made.shape[3])
    if any(lacking):  # pooling rounds up where the convolution rounds down
        made = pad(made, (0, lacking[1], 0, lacking[0]))
    made[:, :channels] += kept
    return made


def _folded(
    reader: _Reader, taken: int, given: int, *, side: int = 3, stride: int = 1
) -> Convolution:
    """The next convolution and its affine layer, as one convolution."""
    import torch

    # dlib's rule: what moves from pixel to pixel keeps the size.
    padding = side // 2 if stride == 1 else 0
    kernel, bias = reader.convolution(taken, given, side, stride, padding)
    gamma, beta = (values.astype(np.float64) for values in reader.affine(given))
    folded = torch.from_numpy((kernel * gamma[:, None, None, None]).astype(np.float32))
    return Convolution(
        folded.contiguous(memory_format=torch.channels_last),
        torch.from_numpy((bias * gamma + beta).astype(np.float32)),
        stride,
        padding,
    )


class _Reader:
    """Reads the trained layers of a file one after the other, from the input on."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def means(self) -> list[float]:
        """What is subtracted from red, green and blue."""
        found = self.data.find(INPUT)
        if found < 0:
            raise NotDlibs("it has no input of pictures")
        self.at = found + len(INPUT)
        means = [self._number() for _ in range(3)]
        self._expect("input", SIDE, SIDE)
        if not all(0 < mean < PIXELS for mean in means):
            raise NotDlibs(f"its means are {means}")
        return means

    def convolution(
        self, taken: int, given: int, side: int, stride: int, padding: int
    ) -> tuple[Floats, Floats]:
        """The next layer's kernel (given, taken, side, side) and biases."""
        self._find("con_")
        size = given * taken * side * side
        values = self._tensor(size + given, 1)
        self._expect("con_", given, side, side, stride, stride, padding, padding)
        return values[:size].reshape(given, taken, side, side), values[size:]

    def affine(self, channels: int) -> tuple[Floats, Floats]:
        """By what the next layer multiplies each channel, and what it adds."""
        self._find("affine_")
        values = self._tensor(2 * channels, 1)
        return values[:channels], values[channels:]

    def fully_connected(self, taken: int, given: int) -> Floats:
        """The matrix (taken, given) of the last layer, which has no biases."""
        self._find("fc_")
        self._expect("fc_", given, taken)
        return self._tensor(taken, given).reshape(taken, given)

    def no_more(self) -> None:
        """Refuses a file with further layers."""
        if found := TRAINED.search(self.data, self.at):
            raise NotDlibs(f"it has one layer too many at byte {found.start()}")

    def _find(self, kind: str) -> None:
        """Goes to what follows the name of the next trained layer, which is of this kind."""
        found = TRAINED.search(self.data, self.at)
        if found is None:
            raise NotDlibs(f"it ends where {kind} should follow")
        name = found.group()[2:]
        if name != NAMES[kind]:
            raise NotDlibs(
                f"at byte {found.start()} is {name.decode()}, not {NAMES[kind].decode()}"
            )
        self.at = found.end()

    def _tensor(self, *shape: int) -> Floats:
        """Its values; the shape is samples and channels, of one pixel each."""
        self._expect("tensor", TENSOR, *shape, 1, 1)
        values = np.frombuffer(self._take(4 * math.prod(shape)), dtype="<f4").astype(np.float32)
        if not np.isfinite(values).all():
            raise NotDlibs(f"before byte {self.at} is a weight that is not a number")
        return values

    def _expect(self, what: str, *wanted: int) -> None:
        begin = self.at
        found = tuple(self._integer() for _ in wanted)
        if found != wanted:
            raise NotDlibs(f"at byte {begin}, of {what}, is {found}, not {wanted}")

    def _integer(self) -> int:
        """A control byte (sign, and how many bytes follow), then those bytes."""
        control = self._take(1)[0]
        size = control & 0x0F
        if control & 0x70 or size > 8:
            raise NotDlibs(f"at byte {self.at - 1} is no integer")
        value = int.from_bytes(self._take(size), "little")
        return -value if control & 0x80 else value

    def _number(self) -> float:
        """A mantissa and a power of two."""
        mantissa, exponent = self._integer(), self._integer()
        try:
            return math.ldexp(mantissa, exponent)
        except OverflowError:
            raise NotDlibs(f"before byte {self.at} is no number") from None

    def _take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise NotDlibs(f"it ends at byte {len(self.data)}, before byte {end}")
        taken, self.at = self.data[self.at : end], end
        return taken
