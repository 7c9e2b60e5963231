"""The exact operators of geometric edit pairs, the one place that knows which way they turn."""

from __future__ import annotations

from PIL import Image

# Quarter turns are named as people say them: rotate_90 turns clockwise, Pillow's
# ROTATE_90 the other way.
OPERATORS = {
    "flip_horizontal": Image.Transpose.FLIP_LEFT_RIGHT,
    "flip_vertical": Image.Transpose.FLIP_TOP_BOTTOM,
    "rotate_90": Image.Transpose.ROTATE_270,
    "rotate_180": Image.Transpose.ROTATE_180,
    "rotate_270": Image.Transpose.ROTATE_90,
}
INVERSES = {
    "flip_horizontal": "flip_horizontal",
    "flip_vertical": "flip_vertical",
    "rotate_90": "rotate_270",
    "rotate_180": "rotate_180",
    "rotate_270": "rotate_90",
}
QUARTER_TURNS = frozenset({"rotate_90", "rotate_270"})


def apply(operator: str, image: Image.Image) -> Image.Image:
    """The image moved by the operator, pixel for pixel; quarter turns swap width and height."""
    return image.transpose(OPERATORS[operator])


def undo(operator: str, image: Image.Image) -> Image.Image:
    """The image moved back: `undo(operator, apply(operator, image))` is the image."""
    return apply(INVERSES[operator], image)
