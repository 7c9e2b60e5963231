"""Types of edits: 35 types in eight families, with their difficulty.

The taxonomy is that of Pico-Banana-400K (CVPR 2026). Its published success rates of one strong
editor are stored with the types that have one; blur and sharpening, which it leaves out, are
not used here either.
"""

from __future__ import annotations

from dataclasses import dataclass
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


#: Titles of the families.
FAMILIES = {
    "photometric": "Pixel and photometric",
    "object": "Objects",
    "scene": "Scene",
    "style": "Style",
    "text": "Text and symbols",
    "human": "People",
    "scale": "Scale",
    "layout": "Space and layout",
}

TYPES = {
    kind.key: kind
    for kind in (
        EditType("photometric", "tone", "Change the overall colour tone"),
        EditType("photometric", "exact-colour", "Transform all colours by a stated rule"),
        EditType("photometric", "film", "Film grain or a vintage filter", 0.9068),
        EditType("photometric", "exposure", "Brighten or darken"),
        EditType("object", "add", "Add an object"),
        EditType("object", "remove", "Remove an object"),
        EditType("object", "replace", "Replace one object by another"),
        EditType("object", "attribute", "Change an object's colour or material"),
        EditType("object", "relocate", "Move an object", 0.5923),
        EditType("object", "reshape", "Change size, shape or orientation", 0.6627),
        EditType("object", "count", "Change how many there are"),
        EditType("scene", "background", "Change the background"),
        EditType("scene", "season", "Change the season"),
        EditType("scene", "weather", "Change the weather"),
        EditType("scene", "light", "Change light or time of day"),
        EditType("scene", "sky", "Add something to the sky"),
        EditType("style", "artistic", "Strong artistic style", 0.9340),
        EditType("style", "sketch", "Cartoon or sketch"),
        EditType("style", "era", "Another era", 0.8875),
        EditType("style", "material", "Made of another material"),
        EditType("style", "toy", "Brick, clay or pixel figures"),
        EditType("text", "add", "Add words"),
        EditType("text", "replace", "Replace words"),
        EditType("text", "translate", "Translate words"),
        EditType("text", "font", "Change font or colour of words", 0.5759),
        EditType("human", "accessory", "Add, remove or change what is worn"),
        EditType("human", "clothing", "Change the clothes"),
        EditType("human", "hair", "Change hair or beard"),
        EditType("human", "expression", "Change the expression"),
        EditType("human", "age", "Change the apparent age"),
        EditType("human", "animated", "A three-dimensional cartoon figure", 0.6463),
        EditType("human", "caricature", "A caricature", 0.5884),
        EditType("scale", "zoom", "Zoom in or out"),
        EditType("layout", "outpaint", "Extend the picture beyond its frame", 0.6634),
        EditType("layout", "turn", "Flip or rotate"),
    )
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
