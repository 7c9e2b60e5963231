"""Types of edits: 35 in eight families (edit_types.json), with difficulty.

The taxonomy is that of Pico-Banana-400K (CVPR 2026). Its published success rates of one strong
editor are stored with the types that have one; blur and sharpening, which it leaves out, are
not used here either.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evaluation.content.suites import EditPair


@dataclass(frozen=True)
class EditType:
    """A type of edit; `success` is the published share of good edits, or None."""

    family: str
    name: str
    title: str
    success: float | None = None

    @property
    def key(self) -> str:
        return f"{self.family}/{self.name}"


_FAMILIES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
#: Titles of the families.
FAMILIES = {family: row["title"] for family, row in _FAMILIES.items()}
TYPES = {
    f"{family}/{name}": EditType(family, name, **kind)
    for family, row in _FAMILIES.items()
    for name, kind in row["types"].items()
}

#: The title of each family, with the keys and titles of its types.
BY_FAMILY = [
    (FAMILIES[family], [(kind.key, kind.title) for kind in TYPES.values() if kind.family == family])
    for family in FAMILIES
]

#: By reversibility, from "nothing is lost" to "the original must be invented".
DIFFICULTY = {"exact": 1, "clean": 2, "partial": 3, "destroys": 4, "invents": 4}
#: Types below this published success count as hard.
HARD_TYPE = 0.7


def difficulty(pair: EditPair) -> int:
    """Return the expected difficulty of a pair, 1 to 5, before it is played.

    It depends mostly on the reversibility (DIFFICULTY); types that often fail count one more.
    """
    kind = TYPES.get(pair.type)
    often_fails = kind is not None and kind.success is not None and kind.success < HARD_TYPE
    return min(5, DIFFICULTY[pair.reversibility] + often_fails)
