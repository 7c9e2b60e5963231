"""Estimate the half-lives of the reference editors that add noise, which give the board its scale.

This takes a fraction of the time of a run. The noise does not depend on the prompt, so only the
noise is added, without edits. The trip at which an image is lost is found by bisection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from PIL import Image

from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.content import catalog, sources
from evaluation.content.suites import Suite
from evaluation.editors.reference import Noise
from evaluation.images import without_low_bits
from evaluation.measuring.scoring import Scorer

SHARES = (1 / 10, 1 / 4, 1 / 2, 1)
#: The factor by which a half-life may differ from its target, one of SHARES of the trips.
FACTOR = 2.0
METRICS = ("overall",)


def worn(source: Image.Image, editor: Noise, edits: int) -> Iterator[Image.Image]:
    """Yield the image after each trip of `edits` edits."""
    random, image = np.random.default_rng(0), source
    while True:
        for _ in range(edits):
            image = editor.noisy(without_low_bits(image), random)
        yield image


def trips_until_damaged(
    source: Image.Image, editor: Noise, suite: Suite, edits: int, scorer: Scorer
) -> float:
    """Return the trips until the image is clearly damaged, at most the suite's number of trips."""
    trips, seen = worn(source, editor, edits), [source]
    kept = {0: 1.0}

    def is_usable(number: int) -> bool:
        while len(seen) <= number:
            seen.append(next(trips))
        if number not in kept:
            distance = (scorer.score(source, [seen[number]]).distances["overall"] or [1.0])[0]
            kept[number] = 1 - distance
        return kept[number] > DEFAULT_THRESHOLD

    last, number = 0, 1
    while is_usable(number):
        if number == suite.trips:
            return float(number)
        last, number = number, min(2 * number, suite.trips)
    while number - last > 1:
        middle = (last + number) // 2
        last, number = (middle, number) if is_usable(middle) else (last, middle)
    return last + (kept[last] - DEFAULT_THRESHOLD) / (kept[last] - kept[number])


def sigmas(suite: Suite) -> list[float]:
    """Return the strengths of the suite's noise editors, the strongest first."""
    rows = [row for row in catalog.editing_models() if row["editor"] == "noise"]
    found = [row["options"]["sigma"] for row in rows if suite.slug in row["reference_suites"]]
    return sorted(found, reverse=True)


def covers_the_scale(half_lives: Sequence[float | None], trips: int) -> bool:
    """Return True if four of these half-lives are about N/10, N/4, N/2 and N."""
    finite = [half_life / trips for half_life in half_lives if half_life is not None]
    return any(
        all(
            share / FACTOR <= one <= share * FACTOR for one, share in zip(four, SHARES, strict=True)
        )
        for four in combinations(sorted(finite), len(SHARES))
    )


def half_lives(suite: Suite, images: int) -> dict[float, float | None]:
    """Return the half-life for each strength of noise, over `images` images of the suite."""
    scorer = Scorer(METRICS)
    edits = max(len(pair.cycle[0].steps) if pair.shape else 2 for pair in suite.pairs)
    chosen = suite.images[:: max(1, len(suite.images) // images)][:images]
    sources_at_size = [sources.load_prepared(image, suite.size) for image in chosen]
    by_sigma: dict[float, float | None] = {}
    for sigma in sigmas(suite):
        trips = sorted(
            trips_until_damaged(image, Noise(sigma), suite, edits, scorer)
            for image in sources_at_size
        )
        middle = trips[(len(trips) - 1) // 2]
        by_sigma[sigma] = middle if middle < suite.trips else None
    return by_sigma
