"""Pictures for links shared elsewhere: what was found of a model, a case or a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageOps

from evaluation.images import ImageError
from leaderboard.board.picture import (
    BAR,
    GROUND,
    HEIGHT,
    INK,
    LINE,
    MARGIN,
    PANEL,
    QUIET,
    SCALE,
    WIDTH,
    Pen,
    flat_png,
)
from leaderboard.models import StoredImage

#: The side of a picture on a card.
SIDE = 200


def card(
    name: str,
    finding: str,
    about: str,
    curves: Sequence[Sequence[float | None]] = (),
    pictures: Sequence[tuple[Image.Image, str]] = (),
) -> bytes:
    """A PNG of 1200 x 630: a name, what was found, a drawing of it, and what it is about."""
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), GROUND)
    pen = Pen(ImageDraw.Draw(image))
    pen.text(MARGIN, 46, "ConvergeBench", 26, BAR)
    pen.text(MARGIN, 84, pen.fitting(name, 36, WIDTH - 2 * MARGIN), 36, QUIET)
    for place, line in enumerate(pen.wrapped(finding, 44, WIDTH - 2 * MARGIN, 4)):
        pen.text(MARGIN, 138 + 54 * place, line, 44, INK)
    for place, (picture, words) in enumerate(pictures[:5]):
        left = MARGIN + (SIDE + 16) * place
        small = ImageOps.contain(picture.convert("RGB"), (SIDE * SCALE, SIDE * SCALE))
        image.paste(small, (left * SCALE, 330 * SCALE))
        pen.text(left, 338 + small.height // SCALE, pen.fitting(words, 20, SIDE), 20, QUIET)
    if not pictures:
        _draw(pen, [curve for curve in curves if len(curve) > 1])
    pen.text(MARGIN, HEIGHT - 46, pen.fitting(about, 22, WIDTH - 2 * MARGIN), 22, QUIET)
    return flat_png(image, photographs=bool(pictures))


def read(stored: StoredImage | None) -> Image.Image | None:
    """A picture's small copy; None where it is not in storage."""
    try:
        return stored.read_thumbnail() if stored else None
    except (FileNotFoundError, ImageError):
        return None


def _draw(pen: Pen, curves: Sequence[Sequence[float | None]]) -> None:
    """What is kept over the trips, half of it marked; the first curve stands out."""
    if not curves:
        return
    left, right, top, bottom = MARGIN, WIDTH - MARGIN, 370, HEIGHT - 70
    pen.box(left, top, right, bottom, PANEL)
    pen.box(left, (top + bottom) / 2, right, (top + bottom) / 2 + 1, LINE)
    last = max(len(curve) for curve in curves) - 1
    for place, curve in reversed(list(enumerate(curves))):
        points = [
            (
                (left + (right - left) * number / last) * SCALE,
                (bottom - (bottom - top) * min(1.0, max(0.0, share))) * SCALE,
            )
            for number, share in enumerate(curve)
            if share is not None
        ]
        if len(points) > 1:
            pen.draw.line(points, fill=QUIET if place else BAR, width=(3 if place else 5) * SCALE)
