"""The board as a picture, for links shared elsewhere: 1200 x 630, drawn with Pillow.

Pillow brings its own font, so the picture looks the same on every machine.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from evaluation.analysis import levels
from leaderboard import formatting
from leaderboard.board.row import BoardFilters, BoardRow

WIDTH, HEIGHT, MARGIN = 1200, 630, 64
ROWS = 6
#: Drawn larger and shrunk: edges and letters come out smooth.
SCALE = 2
GROUND, PANEL, INK, QUIET, LINE = "#12343b", "#173f47", "#ffffff", "#a9c4c8", "#2c5a63"
BAR, WHISKER = "#e8b04b", "#ffffff"


def draw(rows: Sequence[BoardRow], filters: BoardFilters | None) -> bytes:
    """A PNG of the first rows; without rows, the question the board answers."""
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), GROUND)
    pen = Pen(ImageDraw.Draw(image))
    pen.text(MARGIN, 52, "ConvergeBench", 26, BAR)
    pen.text(MARGIN, 92, "How many round trips", 46)
    pen.text(MARGIN, 146, "does a picture last?", 46)
    shown = [row for row in rows if row.standing][:ROWS]
    if filters and shown:
        _bars(pen, shown, filters.suite.trips)
        what = f"{filters.suite}, {formatting.metric_label(filters.metric)}, {filters.suite.trips} round trips"
        pen.text(MARGIN, HEIGHT - 50, what, 22, QUIET)
    else:
        pen.text(MARGIN, 300, "Edit a picture, undo the edit, again and again:", 30, QUIET)
        pen.text(
            MARGIN,
            344,
            f"a leaderboard of image-editing models by {levels.life().lower()}.",
            30,
            QUIET,
        )
    return flat_png(image)


def flat_png(image: Image.Image, *, photographs: bool = False) -> bytes:
    """The drawing at its true size."""
    data = io.BytesIO()
    small = image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    # A few flat colours and their edges: a palette is a quarter of the bytes.
    small = small.quantize(256) if photographs else small.quantize(96, dither=Image.Dither.NONE)
    small.save(data, "PNG", optimize=True)
    return data.getvalue()


class Pen:
    """Draws in the picture's own pixels, whatever the scale."""

    def __init__(self, draw: ImageDraw.ImageDraw) -> None:
        self.draw = draw

    def text(self, x: float, y: float, text: str, size: int, colour: str = INK) -> None:
        font = ImageFont.load_default(size * SCALE)
        self.draw.text((x * SCALE, y * SCALE), text, fill=colour, font=font, anchor="la")

    def fitting(self, text: str, size: int, width: float) -> str:
        """The text, cut where it would be wider than this."""
        font = ImageFont.load_default(size * SCALE)
        if self.draw.textlength(text, font) <= width * SCALE:
            return text
        while text and self.draw.textlength(f"{text}…", font) > width * SCALE:
            text = text[:-1]
        return f"{text.rstrip()}…"

    def wrapped(self, text: str, size: int, width: float, lines: int) -> list[str]:
        """The text in lines of at most this width; the last one is cut where there are more."""
        font = ImageFont.load_default(size * SCALE)
        found: list[str] = []
        words = text.replace("\u00a0", " ").split()
        while words and len(found) < lines:
            line = [words.pop(0)]
            while (
                words and self.draw.textlength(" ".join([*line, words[0]]), font) <= width * SCALE
            ):
                line.append(words.pop(0))
            found.append(" ".join([*line, *words] if len(found) == lines - 1 else line))
        return [self.fitting(line, size, width) for line in found]

    def box(self, left: float, top: float, right: float, bottom: float, colour: str) -> None:
        self.draw.rectangle(
            (left * SCALE, top * SCALE, max(left + 1, right) * SCALE, bottom * SCALE), fill=colour
        )


def _bars(pen: Pen, rows: Sequence[BoardRow], trips: int) -> None:
    left, right, top, step = 480, WIDTH - MARGIN - 90, 232, 54

    def place(value: float | None) -> float:
        return left + (right - left) * (1 if value is None else min(value, trips) / trips)

    for place_in_list, row in enumerate(rows):
        standing = row.standing
        if standing is None:
            continue
        y = top + step * place_in_list
        rank = str(standing.rank) if row.group == "ranked" and standing.rank else ""
        pen.text(MARGIN, y + 4, rank, 26, BAR)
        pen.text(MARGIN + 48, y + 4, pen.fitting(row.model.name, 26, left - MARGIN - 72), 26)
        pen.box(left, y + 2, right, y + 36, PANEL)
        pen.box(left, y + 2, place(standing.half_life), y + 36, BAR)
        if standing.has_interval:
            pen.box(
                place(standing.half_life_low),
                y + 18,
                place(standing.half_life_high),
                y + 20,
                WHISKER,
            )
        words = formatting.half_life(standing.half_life, trips).replace("\u00a0", " ")
        pen.text(right + 16, y + 4, words, 26)
