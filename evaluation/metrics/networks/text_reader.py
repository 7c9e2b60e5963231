"""Text recognition (PP-OCRv6, run by OpenCV)."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import cache, cached_property
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from evaluation import weights
from evaluation.metrics.base import Luma, MetricError, is_large

# Text is detected in a copy whose longer side is SIDE. Small images are enlarged at most by
# MAX_ENLARGEMENT, because more shows no further letters. Lines are read at LINE_HEIGHT, as in
# training.
SIDE, STEP = 640, 32
MAX_ENLARGEMENT = 1.5
LINE_HEIGHT, LINE_WIDTH = 48, 320
# The least probability of a text pixel, and the least area of a line, in pixels.
MIN_PROBABILITY, MIN_AREA = 0.3, 60
# The network detects the core of a line; this share of its height is added around it.
AROUND = 0.6
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
SPREAD = np.array([0.229, 0.224, 0.225], dtype=np.float32)


class TextReader:
    """Reader of the text in images, one image at a time."""

    version: ClassVar[str] = "pp-ocrv6-small-3"
    weights: ClassVar[str] = "text-reader"
    modules: ClassVar[dict[str, str]] = {"cv2": "opencv-python-headless"}

    def __init__(self) -> None:
        # An OpenCV network processes one image at a time.
        self._lock = Lock()

    def lines(self, image: Image.Image) -> list[str]:
        """Return the text in the image, line by line from the top."""
        with self._lock:
            return self._lines(image)

    def _lines(self, image: Image.Image) -> list[str]:
        import cv2

        scale = min(SIDE / max(image.size), MAX_ENLARGEMENT)
        wide, high = (max(STEP, round(s * scale / STEP) * STEP) for s in image.size)
        small = np.asarray(image.resize((wide, high)), dtype=np.float32)[..., ::-1] / 255
        self._detector.setInput(_blob((small - MEAN) / SPREAD))
        letters = (self._detector.forward()[0, 0] > MIN_PROBABILITY).astype(np.uint8)
        if is_large(image.size):
            # A network keeps 130 MB of results for a large image; loading it again takes 0.1 s.
            del self._detector
        count, _, boxes, _ = cv2.connectedComponentsWithStats(letters)
        lines = []
        for left, top, width, height, area in sorted(boxes[1:count].tolist(), key=_reading_order):
            if area < MIN_AREA:
                continue
            more = AROUND * min(width, height)
            shares = (
                max(0.0, left - more) / wide,
                max(0.0, top - more) / high,
                min(wide, left + width + more) / wide,
                min(high, top + height + more) / high,
            )
            box = tuple(round(s * side) for s, side in zip(shares, image.size * 2, strict=True))
            lines.append(self._read(image.crop(box)))
        if is_large(image.size):
            vars(self).pop("_reader", None)
        return [line for line in lines if line]

    def _read(self, line: Image.Image) -> str:
        width = max(1, round(LINE_HEIGHT * line.width / line.height))
        paper = np.zeros((LINE_HEIGHT, max(LINE_WIDTH, width), 3), np.float32)
        scaled = line.resize((width, LINE_HEIGHT), Image.Resampling.BICUBIC)
        paper[:, :width] = np.asarray(scaled, dtype=np.float32)[..., ::-1] / 127.5 - 1
        self._reader.setInput(_blob(paper))
        steps = self._reader.forward()[0].argmax(-1)
        # The network repeats each letter and puts a blank (0) between two equal letters.
        letters = [
            n for n, before in zip(steps, [0, *steps[:-1]], strict=True) if n and n != before
        ]
        return "".join(self._alphabet[n - 1] for n in letters)

    @property
    def _parts(self) -> tuple[Luma, Luma]:
        """Return the bytes of the detection and the reading network, mapped from their file."""
        data = np.memmap(weights.locate(self.weights)[0], dtype=np.uint8, mode="r")
        begin = 8 + int.from_bytes(data[:8].tobytes(), "little")
        return data[8:begin], data[begin:]

    @cached_property
    def _detector(self) -> Any:
        return _network(self._parts[0])

    @cached_property
    def _reader(self) -> Any:
        return _network(self._parts[1])

    @cached_property
    def _alphabet(self) -> list[str]:
        """Return the letters, which the reading network's file stores under "character"."""
        _, key, rest = self._parts[1].tobytes().rpartition(b"character\x12")
        if not key:
            raise MetricError("the file of the text-reading network contains no alphabet")
        length = shift = position = 0
        while True:  # the alphabet's length, as a protobuf varint
            byte = rest[position]
            length |= (byte & 0x7F) << shift
            position, shift = position + 1, shift + 7
            if byte < 0x80:
                break
        return [*rest[position : position + length].decode().split("\n"), " "]


@cache
def text_reader() -> TextReader:
    """Return the reader that this process shares."""
    return TextReader()


def _network(data: Luma) -> Any:
    import cv2

    return cv2.dnn.readNetFromONNX(data)


def _blob(values: Any) -> Any:
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None], dtype=np.float32)


def _reading_order(box: list[int]) -> tuple[int, int]:
    left, top, _, height, _ = box
    return (top + height // 2) // STEP, left


def best_match(words: str, lines: list[str]) -> float:
    """Return the similarity of the words to their best match in one line or in all lines joined."""
    wanted = plain(words)
    best = 0.0
    for text in (plain("".join(lines)), *map(plain, lines)):
        for start in range(max(1, len(text) - len(wanted) + 1)):
            part = text[start : start + len(wanted)]
            best = max(best, SequenceMatcher(None, wanted, part, autojunk=False).ratio())
    return best


def plain(text: str) -> str:
    """Return the letters and digits of a text in capitals."""
    return re.sub(r"[^0-9A-ZÀ-Þ]", "", text.upper())
