"""Types of edits: 35 types in eight families (edit_types.json), and their difficulty.

The taxonomy is that of the paper Pico-Banana-400K (CVPR 2026), which published the success rates of
one strong editor. Like the paper, the taxonomy has no types for blur and sharpening.
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
    """A type of edit; `success` is the published share of good edits, None if unpublished."""

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

#: For each family its title, and the keys and titles of its types.
BY_FAMILY = [
    (FAMILIES[family], [(kind.key, kind.title) for kind in TYPES.values() if kind.family == family])
    for family in FAMILIES
]

#: The difficulty of each reversibility: 1 if the edit loses nothing, 4 if undoing it must invent
#: the original.
DIFFICULTY = {"exact": 1, "clean": 2, "partial": 3, "destroys": 4, "invents": 4}
#: Types with a lower published success rate count as hard.
HARD_TYPE = 0.7


def difficulty(pair: EditPair) -> int:
    """Return the expected difficulty of a pair, from 1 to 5.

    That is the DIFFICULTY of the pair's reversibility, plus 1 if edits of its type often fail.
    """
    kind = TYPES.get(pair.type)
    often_fails = kind is not None and kind.success is not None and kind.success < HARD_TYPE
    return min(5, DIFFICULTY[pair.reversibility] + often_fails)
