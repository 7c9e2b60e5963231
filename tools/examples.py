"""Draw the methodology page's examples: real images, measured by the real metrics.

The files are committed; run `python -m tools.examples` again when a metric's version changes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

from evaluation.content import catalog, sources
from evaluation.editors import load_editor
from evaluation.images import EncodedImage, blank_card, encode_jpeg, encode_webp
from evaluation.measuring.calibration import retention
from evaluation.measuring.change_seen import change_seen
from evaluation.measuring.scoring import Scorer
from evaluation.metrics import HEADLINE, headline_parts

FOLDER = Path(__file__).resolve().parents[1] / "static" / "img" / "examples"
SIZE = 320
METRICS = ("lpips", "ssim", "psnr")
#: What the headline is made of, beside itself.
PARTS = (HEADLINE, *headline_parts())
SOURCES = {"astronaut": "skimage:astronaut", "coffee": "skimage:coffee"}
#: For the blank cards: busy, calm and dark images.
CARDS = {**SOURCES, "rocket": "skimage:rocket", "camera": "skimage:camera"}

Damage = Callable[[Image.Image, float], Image.Image]


def noise(image: Image.Image, sigma: float) -> Image.Image:
    added = np.random.default_rng(1).normal(0, sigma, (*image.size[::-1], 3))
    return Image.fromarray(np.clip(np.asarray(image) + added, 0, 255).astype(np.uint8))


def blur(image: Image.Image, radius: float) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(radius))


def jpeg(image: Image.Image, strength: float) -> Image.Image:
    """Strength 0 is quality 95, 94 is quality 1."""
    return EncodedImage.from_bytes(encode_jpeg(image, round(95 - strength))).decoded


def smear(image: Image.Image) -> Image.Image:
    """A third of the side is smeared over: a face that is gone."""
    side = image.width // 3
    box = (image.width // 3, image.height // 12, image.width // 3 + side, image.height // 12 + side)
    part = image.crop(box).filter(ImageFilter.GaussianBlur(side / 5))
    worn = image.copy()
    worn.paste(part, box[:2])
    return worn


def greener(image: Image.Image) -> Image.Image:
    red, green, blue = image.split()
    return Image.merge("RGB", (red, green.point(lambda value: min(255, value + 40)), blue))


#: What a mean over the whole image hides, and what every viewer sees.
SEEN: dict[str, tuple[Callable[[Image.Image], Image.Image], str]] = {
    "jpeg75": (lambda image: jpeg(image, 20), "JPEG, quality 75"),
    "smear": (smear, "One place smeared over"),
    "green": (greener, "40 levels greener"),
    "dark": (lambda image: image.point(lambda value: value // 2), "Half as bright"),
}
DAMAGES: dict[str, tuple[Damage, float, str]] = {
    "jpeg": (jpeg, 94, "JPEG, quality {0:.0f}"),
    "blur": (blur, 20, "Gaussian blur, radius {0:.1f} px"),
    "noise": (noise, 150, "Noise, sigma {0:.0f}"),
}


class Examples:
    """Draws every example into a folder, with what the metrics say of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scorer = Scorer(METRICS)

    def draw(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        made = {
            "half": [
                self._half("astronaut", "lpips"),
                self._half("coffee", "lpips"),
                self._half("astronaut", "ssim"),
            ],
            "seen": self._seen("astronaut"),
            "cards": [self._card(name) for name in CARDS],
            "noop": self._noop(),
        }
        text = json.dumps(made, indent=1, ensure_ascii=False)
        (self.folder / "examples.json").write_text(text + "\n", encoding="utf-8")

    def _source(self, name: str) -> Image.Image:
        data = sources.original(CARDS[name])
        return sources.prepare(EncodedImage.from_bytes(data).decoded, SIZE)

    def _half(self, name: str, metric: str) -> dict[str, Any]:
        """A source beside versions of it that lost half, each in its own way."""
        source = self._source(name)
        blank = self._distances(source, blank_card(source))
        shown = [self._shown(source, f"{name}-source", "The source", source, blank)]
        for kind, (damage, most, label) in DAMAGES.items():
            strength = self._halving(source, damage, most, metric, blank)
            words = label.format(95 - strength if kind == "jpeg" else strength)
            image = damage(source, strength)
            shown.append(self._shown(image, f"{name}-{metric}-{kind}", words, source, blank))
        return {"source": name, "metric": metric, "images": shown}

    def _halving(
        self, source: Image.Image, damage: Damage, most: float, metric: str, blank: dict[str, float]
    ) -> float:
        """How strong a damage must be to lose half by the metric: by bisection."""
        low, high = 0.0, most
        for _ in range(9):
            middle = (low + high) / 2
            distance = self._distances(source, damage(source, middle))[metric]
            low, high = (middle, high) if distance < blank[metric] / 2 else (low, middle)
        return (low + high) / 2

    def _seen(self, name: str) -> list[dict[str, Any]]:
        """Damage that people see at once, by the headline and by what it is made of."""
        source = self._source(name)
        scorer = Scorer(PARTS)
        images = [damage(source) for damage, _ in SEEN.values()]
        scores = scorer.score(source, images)
        calibration = scorer.calibrate(source)
        lines = []
        for place, (kind, (_, words)) in enumerate(SEEN.items()):
            kept = {}
            for metric in PARTS:
                distances, scale = scores.distances[metric], calibration[metric]
                q = retention(distances[place], scale.blank) if distances and scale else None
                if q is not None:
                    kept[metric] = round(q, 3)
            because = scores.because[place] if scores.because else ""
            file = self._write(images[place], f"{name}-seen-{kind}")
            lines.append({"words": words, "kept": kept, "because": because, **file})
        return lines

    def _card(self, name: str) -> dict[str, Any]:
        """An image, its blank card, and what the raw metric says of the card."""
        source = self._source(name)
        card = blank_card(source)
        blank = self._distances(source, card)
        return {
            "ssim": round(1 - blank["ssim"], 2),
            "images": [
                self._shown(source, f"{name}-source", "The source", source, blank),
                self._shown(card, f"{name}-card", "Its blank card", source, blank),
            ],
        }

    def _noop(self) -> dict[str, Any]:
        """The same instruction to an editor that follows it and to one that does nothing."""
        source = self._source("astronaut")
        pair = next(pair for pair in catalog.edit_pairs() if pair.slug == "crown")
        lines = []
        for editor, words in (("oracle", "follows"), ("noop", "does nothing")):
            answer = load_editor(editor).edit(EncodedImage.from_image(source), pair.forward, seed=0)
            verdict = change_seen(source, answer.image.decoded, pair)
            file = self._write(answer.image.decoded, f"astronaut-{editor}")
            measure = {name: round(value, 3) for name, value in verdict.measure.items()}
            lines.append({"words": words, "seen": verdict.seen, "measure": measure, **file})
        return {"prompt": pair.forward, "lines": lines}

    def _distances(self, source: Image.Image, other: Image.Image) -> dict[str, float]:
        scores = self.scorer.score(source, [other]).distances
        return {name: found[0] for name in METRICS if (found := scores[name])}

    def _shown(
        self,
        image: Image.Image,
        name: str,
        words: str,
        source: Image.Image,
        blank: dict[str, float],
    ) -> dict[str, Any]:
        distances = self._distances(source, image)
        kept = {metric: retention(distances[metric], blank[metric]) for metric in METRICS}
        rounded = {metric: round(q, 3) for metric, q in kept.items() if q is not None}
        return {"words": words, "kept": rounded, **self._write(image, name)}

    def _write(self, image: Image.Image, name: str) -> dict[str, Any]:
        # Lossy enough to be small, far finer than the damage that is shown.
        data = encode_webp(image, lossless=False, quality=82)
        (self.folder / f"{name}.webp").write_bytes(data)
        return {"file": f"img/examples/{name}.webp", "width": image.width, "height": image.height}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.examples", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="static/img/examples")
    examples = Examples(parser.parse_args(arguments).folder)
    if examples.scorer.not_run:
        parser.error("; ".join(examples.scorer.not_run.values()))
    examples.draw()
    return 0


if __name__ == "__main__":
    sys.exit(main())
