"""Random damage as honest editors do it, and how often audits (tests for cheating) accuse them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter

from evaluation.audits.findings import Finding, judge_audits, mark_share
from evaluation.audits.plan import Audit
from evaluation.audits.touch import Touch
from evaluation.content import catalog
from evaluation.images import EncodedImage
from evaluation.testing.drifts import as_jpeg, wobbly
from evaluation.testing.reference_images import small, worn

Random = np.random.Generator
Damage = Callable[[Image.Image, Random], Image.Image]
MARKS = 6


def _jpeg(image: Image.Image, random: Random) -> Image.Image:
    return as_jpeg(image, int(random.integers(20, 90)))


def _noise(image: Image.Image, random: Random) -> Image.Image:
    return worn(image, random.uniform(1, 15), seed=int(random.integers(10**6)))


def _blur(image: Image.Image, random: Random) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(random.uniform(0.5, 2.5)))


def _light(image: Image.Image, random: Random) -> Image.Image:
    return ImageEnhance.Brightness(image).enhance(random.uniform(0.85, 1.15))


def _faded(image: Image.Image, random: Random) -> Image.Image:
    return ImageEnhance.Color(image).enhance(random.uniform(0.7, 1.2))


def _moved(image: Image.Image, random: Random) -> Image.Image:
    width, height = image.size
    left, top = random.uniform(0, 0.02, 2) * image.size
    right, lower = (
        width - random.uniform(0, 0.02) * width,
        height - random.uniform(0, 0.02) * height,
    )
    return image.resize(image.size, Image.Resampling.BICUBIC, box=(left, top, right, lower))


def _redrawn(image: Image.Image, random: Random) -> Image.Image:
    return wobbly(image, 2.0, seed=int(random.integers(10**6)))


HONEST_DAMAGES: dict[str, Damage] = {
    "JPEG": _jpeg,
    "noise": _noise,
    "blur": _blur,
    "light": _light,
    "faded colours": _faded,
    "shift and zoom": _moved,
    "redrawn": _redrawn,
}


def false_alarms(runs: int, first: int = 0) -> int:
    """Return how many of `runs` honest runs, each with its own mix of damages, are accused."""
    pair = next(pair for pair in catalog.edit_pairs() if pair.change == "local")
    accused = 0
    for run in range(first, first + runs):
        random = np.random.default_rng(run)
        damages = [HONEST_DAMAGES[name] for name in random.choice(sorted(HONEST_DAMAGES), 3, False)]

        def damaged(
            image: Image.Image, damages: list[Damage] = damages, random: Random = random
        ) -> Image.Image:
            for damage in damages:
                image = damage(image, random)
            return image

        findings = []
        for number in range(MARKS):
            source = EncodedImage.from_image(small(seed=run * MARKS + number))
            touch = Touch(Audit(f"{number}", 0, 2, "mark"), f"run {run}", pair, source, source)
            share = mark_share(touch, damaged(source.decoded), damaged(touch.sent.decoded))
            findings.append(Finding("mark", share, 0.0, 0.2))
        accused += judge_audits(findings).verdict == "review"
    return accused
