"""How long images last under the reference editors of noise: the scale of the board.

Noise is the same whatever is asked for, so images are worn without the edits, through the
wire as in a chain, and the trip on which half of one is lost is found by halving: a fraction
of what a run would take.
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
#: What a half-life may differ from its share of the trips by.
FACTOR = 2.0
METRICS = ("overall",)


def worn(source: Image.Image, editor: Noise, edits: int) -> Iterator[Image.Image]:
    """The image after each trip of so many edits."""
    random, image = np.random.default_rng(0), source
    while True:
        for _ in range(edits):
            image = editor.noisy(without_low_bits(image), random)
        yield image


def lasts(source: Image.Image, editor: Noise, suite: Suite, edits: int, scorer: Scorer) -> float:
    """The trips until the image is clearly damaged, at most all of the suite's."""
    trips, seen = worn(source, editor, edits), [source]
    kept = {0: 1.0}

    def is_kept(number: int) -> bool:
        while len(seen) <= number:
            seen.append(next(trips))
        if number not in kept:
            distance = (scorer.score(source, [seen[number]]).distances["overall"] or [1.0])[0]
            kept[number] = 1 - distance
        return kept[number] > DEFAULT_THRESHOLD

    last, number = 0, 1
    while is_kept(number):
        if number == suite.trips:
            return float(number)
        last, number = number, min(2 * number, suite.trips)
    while number - last > 1:
        middle = (last + number) // 2
        last, number = (middle, number) if is_kept(middle) else (last, middle)
    return last + (kept[last] - DEFAULT_THRESHOLD) / (kept[last] - kept[number])


def strengths(suite: Suite) -> list[float]:
    """Of every reference editor of noise that is started on the suite, the strongest first."""
    rows = [row for row in catalog.editing_models() if row["editor"] == "noise"]
    own = [row["options"]["sigma"] for row in rows if suite.slug in row["reference_suites"]]
    return sorted(own, reverse=True)


def spread(found: Sequence[float | None], trips: int) -> bool:
    """Whether four of these half-lives are about N/10, N/4, N/2 and N."""
    finite = [one / trips for one in found if one is not None]
    return any(
        all(
            share / FACTOR <= one <= share * FACTOR for one, share in zip(four, SHARES, strict=True)
        )
        for four in combinations(sorted(finite), len(SHARES))
    )


def half_lives(suite: Suite, images: int) -> dict[float, float | None]:
    """Of each strength of noise, the half-life of so many images of the suite, evenly chosen."""
    scorer = Scorer(METRICS)
    edits = max(len(pair.cycle[0].steps) if pair.shape else 2 for pair in suite.pairs)
    chosen = suite.images[:: max(1, len(suite.images) // images)][:images]
    sources_at_size = [sources.prepared(image, suite.size) for image in chosen]
    found: dict[float, float | None] = {}
    for sigma in strengths(suite):
        trips = sorted(
            lasts(image, Noise(sigma), suite, edits, scorer) for image in sources_at_size
        )
        middle = trips[(len(trips) - 1) // 2]
        found[sigma] = middle if middle < suite.trips else None
    return found
