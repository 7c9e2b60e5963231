"""Rules by which reference editors make and undo the edits of a pair.

turn      apply the pair's operator to every pixel; exact
draw      paste the drawing of the pair's object in its place; undo: inpaint the place
tint      y = M x + b on sRGB in a region; undo: the inverse, accurate to a few levels
swap      exchange two channels in a region where they differ; exact and its own inverse
write     write words; undo: inpaint their place
rewrite   replace annotated words by others on the same background; undo: write the old words
scale     shrink the image, with a mirrored or white rim; undo: crop to the middle and enlarge
keep      change nothing
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.content.placement import PLACES

RULES = ("turn", "draw", "tint", "swap", "write", "rewrite", "scale", "keep")
#: The places of placement.py, the whole image, and all pixels with more red than blue.
REGIONS = (*PLACES, "whole", "red")
#: Places for words, in fractions of the image: the centre (x, y) and the height of the letters.
LINES = {
    "top": (0.5, 0.12, 0.15),
    "bottom": (0.5, 0.88, 0.15),
    "lower right": (0.74, 0.92, 0.09),
    "middle": (0.5, 0.5, 0.20),
}
WEIGHTS = np.array([0.299, 0.587, 0.114])

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rule:
    """One of RULES with its parameters. Raises ValueError if a parameter is invalid."""

    do: str
    region: str = "whole"
    tint: str = ""
    channels: str = ""
    words: str = ""
    was: str = ""
    colour: str = ""
    line: str = ""
    factor: float = 1.0
    rim: str = ""

    def __post_init__(self) -> None:
        _one_of("do", self.do, RULES)
        _one_of("region", self.region, REGIONS)
        if self.do == "tint":
            _one_of("tint", self.tint, tuple(TINTS))
        if self.do == "swap":
            _one_of("channels", self.channels, ("rb", "rg", "gb"))
        if self.do == "write":
            _one_of("line", self.line, tuple(LINES))
        if self.do in ("write", "rewrite") and not self.words.strip():
            raise ValueError("words are empty")
        if self.do == "rewrite" and not self.was.strip():
            raise ValueError("“was” is empty: name the words to replace")
        if self.do == "scale" and not 0.5 <= self.factor < 1:
            raise ValueError(f"factor is {self.factor}, not between 0.5 and 1")

    @property
    def undoes_itself(self) -> bool:
        """Return True if the edit is its own inverse, both as a prompt and in pixels."""
        if self.region != "whole":
            return False
        return self.do == "swap" or (self.do == "tint" and self.tint == "negative")


def _towards(colour: tuple[float, float, float], keep: float) -> tuple[Matrix, Matrix]:
    """Return a tint that blends with one colour and keeps the share `keep` of the contrast."""
    return keep * np.eye(3), (1 - keep) * np.array(colour)


def _squeezed(matrix: Matrix) -> tuple[Matrix, Matrix]:
    """Return the tint of a matrix, with reduced contrast so that colours stay in range."""
    low, high = np.minimum(matrix, 0).sum(axis=1), np.maximum(matrix, 0).sum(axis=1)
    scale = min(1.0, 1 / float((high - low).max()))
    return scale * matrix, -scale * low + (1 - scale * (high - low)) / 2


def _saturated(share: float) -> Matrix:
    """Return a saturation matrix: 0 gives grey, 1 changes nothing, above 1 is vivid."""
    return np.asarray(share * np.eye(3) + (1 - share) * np.tile(WEIGHTS, (3, 1)))


def _hue(degrees: float) -> Matrix:
    """Return the matrix that rotates all hues about the grey axis."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    axis = np.full((3, 3), 1 / 3)
    across = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / math.sqrt(3)
    return np.asarray(c * np.eye(3) + (1 - c) * axis + s * across)


def _toned(keep: float, paper: tuple[float, float, float], ink: float) -> tuple[Matrix, Matrix]:
    """Return a tint of nearly one hue: saturation reduced to `keep`, on tinted paper."""
    return ink * np.diag(paper) @ _saturated(keep), (1 - ink) * np.array(paper) * 0.6


def _dimmed(
    tint: tuple[Matrix, Matrix], keep: float, light: tuple[float, float, float]
) -> tuple[Matrix, Matrix]:
    """Return the tint with less contrast and added coloured light."""
    return keep * tint[0], keep * tint[1] + np.array(light)


# y = M x + b on sRGB in [0, 1]. Every M is invertible, and all colours stay in range.
TINTS: dict[str, tuple[Matrix, Matrix]] = {
    "black-and-white": _squeezed(_saturated(0.25)),
    "sepia": _toned(0.28, (1.0, 0.86, 0.66), 0.85),
    "vintage": _toned(0.6, (1.0, 0.93, 0.78), 0.78),
    "negative": (-np.eye(3), np.ones(3)),
    "vivid": _squeezed(_saturated(1.5)),
    "pale": (0.8 * _saturated(0.35), np.full(3, 0.18)),
    "warm": (np.diag([0.70, 0.70, 0.45]), np.array([0.30, 0.14, 0.0])),
    "cool": (np.diag([0.52, 0.70, 0.75]), np.array([0.0, 0.10, 0.25])),
    "green": (np.diag([0.55, 0.72, 0.55]), np.array([0.02, 0.22, 0.05])),
    "blue-wall": _towards((0.25, 0.50, 0.92), 0.5),
    "yellow-wall": _towards((0.98, 0.78, 0.10), 0.5),
    "red-cloth": _towards((0.62, 0.08, 0.10), 0.45),
    "green-cloth": _towards((0.10, 0.42, 0.26), 0.45),
    "leather": _towards((0.10, 0.08, 0.07), 0.5),
    "blonde": _towards((0.86, 0.70, 0.40), 0.5),
    "red-hair": _towards((0.62, 0.20, 0.08), 0.5),
    "brown-hair": _towards((0.26, 0.16, 0.10), 0.5),
    "lips": _towards((0.70, 0.05, 0.12), 0.45),
    "freckles": (np.diag([0.70, 0.52, 0.45]), np.array([0.05, 0.03, 0.02])),
    "old-skin": (0.5 * _saturated(0.5), np.array([0.10, 0.10, 0.12])),
    "smile": _towards((1.0, 0.95, 0.92), 0.4),
    "winter": (np.diag([0.50, 0.52, 0.52]), np.array([0.44, 0.46, 0.48])),
    "autumn": (
        np.array([[0.70, 0.20, 0], [0.20, 0.55, 0], [0, 0.10, 0.45]]),
        np.array([0.10, 0.04, 0.0]),
    ),
    "night": (np.diag([0.30, 0.34, 0.46]), np.array([0.01, 0.02, 0.08])),
    "day": (np.diag([0.62, 0.60, 0.55]), np.array([0.34, 0.37, 0.44])),
    "sunset": (np.diag([0.66, 0.52, 0.40]), np.array([0.30, 0.12, 0.06])),
    "rain": (0.62 * _saturated(0.6), np.array([0.10, 0.12, 0.15])),
    "fog": _towards((0.84, 0.86, 0.88), 0.45),
    "overcast": (0.75 * _saturated(0.7), np.array([0.08, 0.09, 0.10])),
    "lamp": (np.diag([0.72, 0.56, 0.38]), np.array([0.20, 0.10, 0.02])),
    "spotlight": (np.diag([0.50, 0.48, 0.46]), np.array([0.0, 0.0, 0.0])),
    "dark": _towards((0.0, 0.0, 0.0), 0.50),
    "watercolour": (np.diag([0.55, 0.58, 0.55]), np.array([0.43, 0.40, 0.38])),
    "pencil": _toned(0.25, (0.98, 0.98, 0.97), 0.6),
    "oil": _dimmed(_squeezed(_saturated(1.25)), 0.8, (0.16, 0.13, 0.08)),
    "cartoon": _squeezed(_saturated(1.8)),
    "pixels": _squeezed(_hue(25)),
    "comic": _squeezed(_saturated(1.6) @ _hue(-20)),
    "clay": (0.66 * _saturated(0.8), np.array([0.28, 0.20, 0.14])),
    "bricks": _squeezed(_saturated(1.4) @ _hue(12)),
    "anime": (0.70 * _squeezed(_saturated(1.4))[0], np.array([0.30, 0.28, 0.32])),
    "glass": _squeezed(_saturated(1.7) @ _hue(35)),
    "paper": _towards((0.93, 0.88, 0.78), 0.5),
    "photo": (0.82 * _saturated(0.8), np.array([0.07, 0.08, 0.10])),
}


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}, not one of {', '.join(allowed)}")
