"""Small chain shapes for tests: flips and turns, which every reference editor does exactly."""

from __future__ import annotations

from evaluation.content.shapes import Step
from evaluation.content.suites import EditPair

ACROSS = "Mirror the image horizontally, left to right."
DOWN = "Mirror the image vertically, top to bottom."
QUARTER = "Rotate the image by 90 degrees clockwise."


def _flips(slug: str, shape: str, first: str, last: str, against: str = "") -> EditPair:
    across = Step("A", ACROSS, "exact", "flip_horizontal")
    down = Step("B", DOWN, "exact", "flip_vertical")
    return EditPair(
        slug=slug,
        category="geometry",
        forward=first,
        backward=last,
        change="exact",
        reversibility="exact",
        operator="flip_horizontal",
        shape=shape,
        steps=(across, down, Step("a", ACROSS), Step("b", DOWN)),
        against=against,
    )


IN_TURN = _flips("in-turn", "A a = B b", ACROSS, DOWN)
NESTED = _flips("nested", "A B b a", ACROSS, ACROSS, "in-turn")
OTHER_ORDER = _flips("other-order", "B A a b", DOWN, DOWN, "nested")
QUARTERS = EditPair(
    slug="quarters",
    category="geometry",
    forward=QUARTER,
    backward=QUARTER,
    change="exact",
    reversibility="exact",
    operator="rotate_90",
    shape="F F F F",
    steps=(Step("F", QUARTER, "exact", "rotate_90"),),
)
SHAPES = (IN_TURN, NESTED, OTHER_ORDER, QUARTERS)
