"""Draw the examples of the methodology page: shipped images, measured by the site's metrics.

The files are committed. Run `python -m tools.examples` after a change of a metric's version.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from evaluation.content import catalog, sources
from evaluation.content.annotations import Box
from evaluation.editors import load_editor
from evaluation.images import EncodedImage, blank_card, encode_webp
from evaluation.measuring.change_seen import change_seen
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import chain_subject
from evaluation.metrics.overall import Overall
from evaluation.testing.drifts import lit, moved
from evaluation.testing.twin import Damage, blur, jpeg
from tools.studies import known_damages
from tools.studies.known_damages import bent, erased, smeared, turned_hue

FOLDER = Path(__file__).resolve().parents[1] / "static" / "img" / "examples"
SIZE = 320
#: The size at which strips are shown and measured.
STRIP_SIZE = 512
#: The images shown with their blank cards (in the image's mean colour): busy, calm and dark images.
CARDS = {
    "astronaut": "skimage:astronaut",
    "coffee": "skimage:coffee",
    "rocket": "skimage:rocket",
    "camera": "skimage:camera",
}


def green_eyed(image: Image.Image, eyes: Sequence[tuple[float, float]]) -> Image.Image:
    """Colour the irises around these pupils green."""
    values = np.array(image.convert("HSV"))
    rows, columns = np.mgrid[: image.height, : image.width]
    for x, y in eyes:
        far = np.hypot(columns - x * image.width, rows - y * image.height)
        iris = far < 0.012 * image.width
        values[iris, 0] = 95
        values[iris, 1] = np.maximum(values[iris, 1], 150)
    return Image.fromarray(values, "HSV").convert("RGB")


FRAME: Box = (0.36, 0.17, 0.62, 0.39)
BOTTLE: Box = (0.105, 0.12, 0.29, 0.81)
TITLE: Box = (0.2, 0.24, 0.72, 0.43)
HYDRANT: Box = (0.475, 0.72, 0.54, 0.85)
POLE: Box = (0.805, 0.4, 0.825, 0.72)
FACE: Box = (0.273, 0.252, 0.666, 0.775)
PUPILS = ((0.387, 0.427), (0.571, 0.436))


@dataclass(frozen=True)
class Strip:
    """A source image, a damage to it, and a short description of the damage."""

    image: str
    damage: Damage
    words: str
    #: A description of the source image, for screen readers.
    shows: str
    #: True if the headline metric underestimates the damage.
    missed: bool = False


ROOM = "a living room with a sofa, a floor lamp and a framed picture"
BOTTLES = "four bottles in a row: green, blue, orange, purple"
STREET = "a street corner with a brick house and a red hydrant"
WOMAN = "a smiling woman with brown hair before a grey wall"
STRIPS: tuple[Strip, ...] = (
    Strip("living-room", jpeg(75), "As new: saved as a JPEG of quality 75", ROOM),
    Strip("bottles", lambda i: moved(i, right=2, down=-1), "As new: moved by two pixels", BOTTLES),
    Strip("street-corner", lambda i: lit(i, 1.1), "A little too light", STREET),
    Strip("street-corner", blur(1), "Slightly soft", STREET),
    Strip("smiling-woman", partial(bent, box=FACE, strength=1 / 200), "Another face", WOMAN),
    Strip("desk", jpeg(10), "Bands and blocks of colour", "a desk with a screen, a plant and pens"),
    Strip("street-corner", partial(erased, box=HYDRANT), "The hydrant is gone", STREET),
    Strip("bottles", partial(turned_hue, box=BOTTLE), "The green bottle is blue", BOTTLES),
    Strip(
        "novel",
        partial(smeared, box=TITLE),
        "The title cannot be read",
        "a book called The Last Harbour on a wooden table",
    ),
    Strip("living-room", partial(erased, box=FRAME), "The picture on the wall is gone", ROOM),
    Strip(
        "living-room", partial(erased, box=POLE), "The lamp floats: its pole is gone", ROOM, True
    ),
    Strip("smiling-woman", partial(green_eyed, eyes=PUPILS), "The eyes are green", WOMAN, True),
)


class Examples:
    """Draw every example into a folder, and measure it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scorer = Scorer(["ssim"])

    def draw(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        made = {
            "strips": self._strips(),
            "cards": [self._card(name) for name in CARDS],
            "noop": self._noop(),
        }
        text = json.dumps(made, indent=1, ensure_ascii=False)
        (self.folder / "examples.json").write_text(text + "\n", encoding="utf-8")

    def _strips(self) -> list[dict[str, Any]]:
        """Return each strip's two images, its retention, and the part of the metric that lost most."""
        lines = []
        for place, (strip, measured) in enumerate(zip(STRIPS, measure_strips(), strict=True), 1):
            source = known_damages.shipped(strip.image, STRIP_SIZE)
            lines.append(
                {
                    "words": strip.words,
                    "shows": strip.shows,
                    "missed": strip.missed,
                    **measured,
                    "before": self._write(source, f"strip-{strip.image}"),
                    "after": self._write(strip.damage(source), f"strip-{place:02}"),
                }
            )
        return lines

    def _source(self, name: str) -> Image.Image:
        data = sources.original(CARDS[name])
        return sources.prepare(EncodedImage.from_bytes(data).decoded, SIZE)

    def _card(self, name: str) -> dict[str, Any]:
        """Return an image, its blank card, and the card's raw SSIM."""
        source = self._source(name)
        card = blank_card(source)
        (distance,) = self.scorer.score(source, [card]).distances["ssim"] or (0.0,)
        return {
            "ssim": round(1 - distance, 2),
            "images": [
                {"words": "The source", **self._write(source, f"{name}-source")},
                {"words": "Its blank card", **self._write(card, f"{name}-card")},
            ],
        }

    def _noop(self) -> dict[str, Any]:
        """Return the answers of an editor that follows an instruction and of one that does nothing."""
        source = self._source("astronaut")
        pair = next(pair for pair in catalog.edit_pairs() if pair.slug == "crown")
        lines = []
        for editor, words in (("oracle", "follows the prompt"), ("noop", "does nothing")):
            answer = load_editor(editor).edit(EncodedImage.from_image(source), pair.forward, seed=0)
            verdict = change_seen(source, answer.image.decoded, pair)
            file = self._write(answer.image.decoded, f"astronaut-{editor}")
            measure = {name: round(value, 3) for name, value in verdict.measure.items()}
            lines.append({"words": words, "seen": verdict.seen, "measure": measure, **file})
        return {"prompt": pair.forward, "lines": lines}

    def _write(self, image: Image.Image, name: str) -> dict[str, Any]:
        # Lossy, to keep files small; the loss is much smaller than the damage shown.
        data = encode_webp(image, lossless=False, quality=82)
        (self.folder / f"{name}.webp").write_bytes(data)
        return {"file": f"img/examples/{name}.webp", "width": image.width, "height": image.height}


def measure_strips() -> list[dict[str, Any]]:
    """Return each strip's retention by the headline metric, and the part that lost most."""
    metric, suite = Overall(), catalog.suite(known_damages.SUITE)
    measured = []
    prepared: dict[str, Any] = {}
    for strip in STRIPS:
        source = known_damages.shipped(strip.image, STRIP_SIZE)
        if strip.image not in prepared:
            subject = chain_subject(suite.image_by_slug[strip.image])
            prepared[strip.image] = metric.prepare_subject(source, subject)
        (loss,) = metric.losses([prepared[strip.image]], [strip.damage(source)])
        measured.append({"kept": round(1 - loss.distance, 3), "because": loss.because})
    return measured


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.examples", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="static/img/examples")
    examples = Examples(parser.parse_args(arguments).folder)
    if missing := Overall().missing():
        parser.error("; ".join(missing))
    examples.draw()
    return 0


if __name__ == "__main__":
    sys.exit(main())
