"""dlib's face embedding in torch: 29 convolutions with weights from dlib's file.

torch takes 12 ms for a face on one core. The packaged dlib takes 95 ms, because its convolutions
are slow. Layers follow dlib's dnn_face_recognition_ex.cpp; a test compares the numbers with dlib's.
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

#: The side of the network's square input.
SIDE = 150
NUMBERS = 128
# Channels of the first convolution; then, for each block of two, its channels and whether it halves
# the sides.
FIRST = 32
BLOCKS = (
    *((32, False),) * 3,
    *((64, True), (64, False), (64, False), (64, False)),
    *((128, True), (128, False), (128, False)),
    *((256, True), (256, False), (256, False)),
    (256, True),
)
# The names of layers with trained weights, each preceded by its length. Other layers are skipped.
TRAINED = re.compile(rb"\x01(?:\x05(con_)\d|\x07(affine_)|\x04(fc_)\d)")
NAMES = {"con_": b"con_4", "affine_": b"affine_", "fc_": b"fc_2"}
INPUT = b"\x01\x15input_rgb_image_sized"
TENSOR = 2  # the version of dlib's format
PIXELS = 256.0  # dlib's divisor of pixel values


class DlibFormatError(ValueError):
    """The file is not dlib's network; the message gives the reason."""


@dataclass(frozen=True)
class Convolution:
    """A convolution with the next affine layer folded in."""

    kernel: Tensor
    bias: Tensor
    stride: int
    padding: int

    def __call__(self, values: Tensor) -> Tensor:
        from torch.nn.functional import conv2d

        return conv2d(values, self.kernel, self.bias, self.stride, self.padding)


class DlibResnet:
    """The network in a file; it is stateless, so threads may share it."""

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
            reader.expect_end()
        except DlibFormatError as error:
            raise MetricError(f"{file} is not dlib's network of faces: {error}") from error
        self._means = torch.tensor(means).view(1, 3, 1, 1)
        self._last = torch.from_numpy(last)

    def embedding(self, face: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return the 128 numbers of an aligned face, RGB, 150 x 150 pixels."""
        import torch
        from torch.nn.functional import avg_pool2d, max_pool2d

        if face.shape != (SIDE, SIDE, 3):
            raise MetricError(f"a face has the shape {face.shape}, not {SIDE} x {SIDE} x 3")
        with torch.inference_mode(), one_thread():
            # Channels stay last in memory, as in the image.
            pixels = torch.from_numpy(face).permute(2, 0, 1)[None].float()
            values = self._first((pixels - self._means).div_(PIXELS)).relu_()
            values = max_pool2d(values, 3, 2)
            for entry, second in self._blocks:
                residual = second(entry(values).relu_())
                shortcut = avg_pool2d(values, 2) if entry.stride == 2 else values
                values = _sum(residual, shortcut).relu_()
            numbers: NDArray[np.float64] = (values.mean((2, 3)) @ self._last)[0].double().numpy()
        return numbers


def _sum(residual: Tensor, shortcut: Tensor) -> Tensor:
    """Return the sum; channels and pixels that one of the two lacks count as zero."""
    from torch.nn.functional import pad

    _, channels, high, wide = shortcut.shape
    missing = (high - residual.shape[2], wide - residual.shape[3])
    if any(missing):  # pooling rounds up, the convolution rounds down
        residual = pad(residual, (0, missing[1], 0, missing[0]))
    residual[:, :channels] += shortcut
    return residual


def _folded(
    reader: _Reader, channels_in: int, channels_out: int, *, side: int = 3, stride: int = 1
) -> Convolution:
    """Return the next convolution and its affine layer as one convolution."""
    import torch

    # In dlib a convolution of stride 1 keeps the size.
    padding = side // 2 if stride == 1 else 0
    kernel, bias = reader.convolution(channels_in, channels_out, side, stride, padding)
    gamma, beta = (values.astype(np.float64) for values in reader.affine(channels_out))
    folded = torch.from_numpy((kernel * gamma[:, None, None, None]).astype(np.float32))
    return Convolution(
        folded.contiguous(memory_format=torch.channels_last),
        torch.from_numpy((bias * gamma + beta).astype(np.float32)),
        stride,
        padding,
    )


class _Reader:
    """A reader of a file's trained layers, in order from the input."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def means(self) -> list[float]:
        """Return the means that are subtracted from red, green and blue."""
        start = self.data.find(INPUT)
        if start < 0:
            raise DlibFormatError("it has no image input")
        self.at = start + len(INPUT)
        means = [self._number() for _ in range(3)]
        self._expect("input", SIDE, SIDE)
        if not all(0 < mean < PIXELS for mean in means):
            raise DlibFormatError(f"it has impossible means of red, green and blue: {means}")
        return means

    def convolution(
        self, channels_in: int, channels_out: int, side: int, stride: int, padding: int
    ) -> tuple[Floats, Floats]:
        """Return the next layer's kernel (channels_out, channels_in, side, side) and biases."""
        self._find("con_")
        size = channels_out * channels_in * side * side
        values = self._tensor(size + channels_out, 1)
        self._expect("con_", channels_out, side, side, stride, stride, padding, padding)
        return values[:size].reshape(channels_out, channels_in, side, side), values[size:]

    def affine(self, channels: int) -> tuple[Floats, Floats]:
        """Return the next layer's factor and offset of each channel."""
        self._find("affine_")
        values = self._tensor(2 * channels, 1)
        return values[:channels], values[channels:]

    def fully_connected(self, channels_in: int, channels_out: int) -> Floats:
        """Return the matrix (channels_in, channels_out) of the last layer, which has no biases."""
        self._find("fc_")
        self._expect("fc_", channels_out, channels_in)
        return self._tensor(channels_in, channels_out).reshape(channels_in, channels_out)

    def expect_end(self) -> None:
        """Raise DlibFormatError if the file has further layers."""
        if match := TRAINED.search(self.data, self.at):
            raise DlibFormatError(f"it has one layer too many at byte {match.start()}")

    def _find(self, kind: str) -> None:
        """Move past the name of the next trained layer.

        Raises DlibFormatError if the file ends or the layer has another kind.
        """
        match = TRAINED.search(self.data, self.at)
        if match is None:
            raise DlibFormatError(f"it ends before the next {kind} layer")
        name = match.group()[2:]
        if name != NAMES[kind]:
            raise DlibFormatError(
                f"the layer at byte {match.start()} is {name.decode()}, not {NAMES[kind].decode()}"
            )
        self.at = match.end()

    def _tensor(self, *shape: int) -> Floats:
        """Return the next tensor's values; `shape` is samples and channels."""
        self._expect("tensor", TENSOR, *shape, 1, 1)
        values = np.frombuffer(self._take(4 * math.prod(shape)), dtype="<f4").astype(np.float32)
        if not np.isfinite(values).all():
            raise DlibFormatError(f"a weight before byte {self.at} is not a number")
        return values

    def _expect(self, what: str, *wanted: int) -> None:
        begin = self.at
        values = tuple(self._integer() for _ in wanted)
        if values != wanted:
            raise DlibFormatError(f"the header of {what} at byte {begin} is {values}, not {wanted}")

    def _integer(self) -> int:
        """Read a control byte (sign and number of bytes), then those bytes."""
        control = self._take(1)[0]
        size = control & 0x0F
        if control & 0x70 or size > 8:
            raise DlibFormatError(f"byte {self.at - 1} does not begin an integer")
        value = int.from_bytes(self._take(size), "little")
        return -value if control & 0x80 else value

    def _number(self) -> float:
        """Read a mantissa and a power of two."""
        mantissa, exponent = self._integer(), self._integer()
        try:
            return math.ldexp(mantissa, exponent)
        except OverflowError:
            raise DlibFormatError(f"the number before byte {self.at} is too large") from None

    def _take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise DlibFormatError(f"it ends at byte {len(self.data)}, before byte {end}")
        chunk, self.at = self.data[self.at : end], end
        return chunk
