"""Choose the size to request: the size nearest to the image's that the model accepts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Size = tuple[int, int]

#: Providers' names for sizes. The number is the side of a square image of that size.
TIERS = {"512": 512, "1K": 1024, "2K": 2048, "4K": 4096}

# A wrong shape reframes the image and so costs every later trip; a wrong area costs only detail.
SHAPE_WEIGHT = 50


@dataclass(frozen=True)
class SizeRule:
    """Sizes that a model accepts, as its row in fixtures/editing_models.json states them.

    A row sets one of `ratios` ("4:3"), `sizes` ("1536x1024"), a fixed `word` ("adaptive") or a
    fixed `area` in pixels; without any, width and height are free within the bounds. Sides that
    are not listed are multiples of `step`.
    """

    ratios: Sequence[str] = ()
    sizes: Sequence[str] = ()
    word: str = ""
    area: int = 0
    step: int = 16
    min_side: int = 1
    max_side: int = 8192
    min_pixels: int = 1
    max_pixels: int = 2**26
    max_ratio: float = 64

    @classmethod
    def from_row(cls, row: Mapping[str, Any] | None) -> SizeRule | None:
        """Return the rule of a row's `size`; None for a model that takes no size."""
        if not row:
            return None
        try:
            rule = cls(**row)
            rule.legal  # noqa: B018  (so that a malformed entry fails now, not in the first edit)
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"the size rule {dict(row)} is not valid: {error}") from None
        return rule

    @property
    def tiers(self) -> tuple[str, ...]:
        """The TIERS that can be requested; none if the sizes are listed or fixed."""
        if self.ratios or self.sizes or self.word or self.area:
            return ()
        return tuple(name for name, side in TIERS.items() if self._allows(side, side))

    @cached_property
    def legal(self) -> list[tuple[str, Size]]:
        """The listed ratios or sizes, each parsed into numbers; empty if sizes are free."""
        return [(name, _numbers(name, ":")) for name in self.ratios] + [
            (name, _numbers(name, "x")) for name in self.sizes
        ]

    def nearest(self, size: Size) -> Size:
        """Return the allowed width and height nearest to `size`."""
        if self.sizes:
            return min((legal for _, legal in self.legal), key=lambda legal: _distance(legal, size))
        if self.area:
            shape = (size[0] / size[1]) ** 0.5
            sides = self.area**0.5 * shape, self.area**0.5 / shape
            width, height = (max(1, round(side / self.step)) * self.step for side in sides)
            return width, height
        if size[0] % self.step == size[1] % self.step == 0 and self._allows(*size):
            return size
        steps = range(self.step, self.max_side + 1, self.step)
        candidates = [(w, h) for w in steps for h in self._heights(w, size) if self._allows(w, h)]
        # The shape itself is out of bounds, for instance a long strip: search the whole grid.
        candidates = candidates or [(w, h) for w in steps for h in steps if self._allows(w, h)]
        if not candidates:
            raise ValueError("no size is within the bounds")
        return min(candidates, key=lambda legal: _distance(legal, size))

    def nearest_ratio(self, size: Size) -> str:
        """Return the listed ratio nearest to the shape of `size`."""
        return min(self.legal, key=lambda entry: abs(_shape(entry[1]) - _shape(size)))[0]

    def _heights(self, width: int, size: Size) -> tuple[int, int]:
        below = int(width * size[1] / size[0] // self.step) * self.step
        return below, below + self.step

    def _allows(self, width: int, height: int) -> bool:
        return (
            self.min_side <= min(width, height)
            and max(width, height) <= self.max_side
            and self.min_pixels <= width * height <= self.max_pixels
            and max(width, height) <= self.max_ratio * min(width, height)
        )


def at_tier(size: Size, tier: str) -> Size:
    """Return a size of this shape with as many pixels as the tier."""
    scale = TIERS[tier] / math.sqrt(size[0] * size[1])
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _numbers(name: str, separator: str) -> Size:
    width, height = name.split(separator)
    if int(width) < 1 or int(height) < 1:
        raise ValueError(f"{name!r} is not a size")
    return int(width), int(height)


def _shape(size: Size) -> float:
    return math.log(size[0] / size[1])


def _distance(one: Size, other: Size) -> float:
    area = abs(math.log(one[0] * one[1] / (other[0] * other[1])))
    return SHAPE_WEIGHT * abs(_shape(one) - _shape(other)) + area
