"""Draw all cases of a suite on one sheet: python -m tools.contact_sheet SUITE.

Each cell shows the annotations and the edit by a reference editor. The sheet is for review: no
drawing may cover something important.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageDraw

from evaluation.content import catalog, sources
from evaluation.content.annotations import AREAS, Annotations, Box
from evaluation.content.suites import EditPair, Suite, SuiteImage
from evaluation.editors.instructions import follow, parse
from evaluation.errors import EditorError

CELL, COLUMNS, CAPTION = 240, 10, 26
COLOURS = {
    "face": "#00ff00",
    "floor": "#ff9900",
    "wall": "#ff00ff",
    "sky": "#00bfff",
    "surface": "#b5651d",
    "water": "#0000ff",
    "text": "#ff0000",
}
POINTS = {"mouth": "#ff0000", "head_top": "#ffff00", "neck": "#00ffff"}


def annotated(image: Image.Image, places: Annotations) -> Image.Image:
    """Return the image with its annotations outlined."""
    result = image.copy()
    draw = ImageDraw.Draw(result)
    thick = max(1, min(image.size) // 150)

    def outline(box: Box, name: str) -> None:
        corners = [v * side for v, side in zip(box, image.size * 2, strict=True)]
        draw.rectangle(corners, outline=COLOURS[name], width=thick)

    def dot(x: float, y: float, colour: str) -> None:
        at = (x * image.width, y * image.height)
        draw.circle(at, 2 * thick, fill=colour, outline="black")

    if places.face:
        outline(places.face, "face")
    for name in AREAS:
        for box in getattr(places, name):
            outline(box, name)
    for words in places.text:
        outline(words.box, "text")
    for eye in places.eyes or ():
        dot(eye[0], eye[1], COLOURS["face"])
    for name, colour in POINTS.items():
        if point := getattr(places, name):
            dot(point[0], point[1], colour)
    return result


def case_image(image: Image.Image, source: SuiteImage, pair: EditPair) -> Image.Image:
    """Return a case's image after the forward edit by a reference editor, with its annotations.

    Drawings, turns and shrinking are made in the annotated image. Other edits would hide the
    annotations, so those edits are made first.
    """
    places = source.annotations
    try:
        instruction = parse(pair.forward)
    except EditorError:  # only models can make this edit
        return annotated(image, places)
    if instruction.action in ("draw", "turn", "shrink"):
        return follow(instruction, annotated(image, places), places)
    return annotated(follow(instruction, image, places), places)


def sheet(suite: Suite) -> Image.Image:
    """Return a sheet with a cell for every case of a shipped suite."""

    @lru_cache(maxsize=4)  # consecutive cases share images
    def images(image: SuiteImage) -> Image.Image:
        return sources.load_prepared(image, suite.size)

    cells = (
        (case_image(images(image), image, pair), f"{case.image}\n{case.pair}")
        for case in suite.cases
        for image in [suite.image_by_slug[case.image]]
        for pair in [suite.pair_by_slug[case.pair]]
    )
    return _sheet(cells, len(suite.cases))


def _sheet(cells: Iterable[tuple[Image.Image, str]], count: int) -> Image.Image:
    """Arrange captioned images in rows of COLUMNS cells."""
    columns = min(COLUMNS, count)
    rows = math.ceil(count / columns)
    page = Image.new("RGB", (columns * CELL, rows * (CELL + CAPTION)), "white")
    draw = ImageDraw.Draw(page)
    for number, (image, caption) in enumerate(cells):
        left, top = number % columns * CELL, number // columns * (CELL + CAPTION)
        small = image.copy()
        small.thumbnail((CELL - 4, CELL - 4))
        page.paste(small, (left, top))
        draw.multiline_text((left, top + CELL - 2), caption, "black", spacing=1)
    return page


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.contact_sheet", description=__doc__)
    parser.add_argument(
        "suites", nargs="+", help="suites: standard, or standard-v1 for one version"
    )
    parser.add_argument("--to", type=Path, default=Path("var/contact-sheets"), help="output folder")
    options = parser.parse_args(arguments)
    options.to.mkdir(parents=True, exist_ok=True)
    for name in options.suites:
        sheet(catalog.suite(name)).save(options.to / f"{name}.png")


if __name__ == "__main__":
    main()
