"""How long pictures of the suites last under the yardsticks of noise: the scale of the board.

    python -m evaluation.benchmarks.yardsticks --suites portraits --pictures 5

On every suite four of them are to have half-lives of about N/10, N/4, N/2 and N. Noise is the
same whatever is asked for, so pictures are worn without the edits, through the wire as in a
chain, and the trip on which half of one is lost is found by halving: a fraction of what a run
would take. Fails where no four are within a factor of two.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from PIL import Image

from evaluation.content import catalog, sources
from evaluation.content.suites import Suite
from evaluation.editors.reference import Noise
from evaluation.images import without_low_bits
from evaluation.measuring.scoring import Scorer
from evaluation.statistics.half_life import half_life, shown_half_life
from evaluation.statistics.levels import DEFAULT_LEVEL

SHARES = (1 / 10, 1 / 4, 1 / 2, 1)
#: What a half-life may differ from its share of the trips by.
FACTOR = 2.0
METRICS = ("lpips", "place", "colour", "picture")


def worn(source: Image.Image, editor: Noise, edits: int) -> Iterator[Image.Image]:
    """The picture after each trip of so many edits."""
    random, image = np.random.default_rng(0), source
    while True:
        for _ in range(edits):
            image = editor.noisy(without_low_bits(image), random)
        yield image


def lasts(source: Image.Image, editor: Noise, suite: Suite, edits: int, scorer: Scorer) -> float:
    """The trips until half of the picture is lost, at most all of the suite's."""
    trips, seen = worn(source, editor, edits), [source]
    kept = {0: 1.0}

    def is_kept(number: int) -> bool:
        while len(seen) <= number:
            seen.append(next(trips))
        if number not in kept:
            distance = (scorer.score(source, [seen[number]]).distances["picture"] or [1.0])[0]
            kept[number] = 1 - distance
        return kept[number] > DEFAULT_LEVEL

    last, number = 0, 1
    while is_kept(number):
        if number == suite.trips:
            return float(number)
        last, number = number, min(2 * number, suite.trips)
    while number - last > 1:
        middle = (last + number) // 2
        last, number = (middle, number) if is_kept(middle) else (last, middle)
    return last + (kept[last] - DEFAULT_LEVEL) / (kept[last] - kept[number])


def strengths() -> list[float]:
    """Of every yardstick of noise, the strongest first."""
    rows = catalog.editing_models()
    return sorted(row["options"]["sigma"] for row in rows if row["editor"] == "noise")[::-1]


def spread(found: Sequence[float | None], trips: int) -> bool:
    """Whether four of these half-lives are about N/10, N/4, N/2 and N."""
    finite = [one / trips for one in found if one is not None]
    return any(
        all(
            share / FACTOR <= one <= share * FACTOR for one, share in zip(four, SHARES, strict=True)
        )
        for four in combinations(sorted(finite), len(SHARES))
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suites", nargs="*", default=[suite.slug for suite in catalog.suites()])
    parser.add_argument("--pictures", type=int, default=5, help="of each suite, evenly chosen")
    options = parser.parse_args(arguments)
    scorer, missed = Scorer(METRICS), 0
    for name in options.suites:
        suite = catalog.suite(name)
        edits = max(len(pair.cycle[0].steps) if pair.shape else 2 for pair in suite.pairs)
        step = max(1, len(suite.pictures) // options.pictures)
        chosen = suite.pictures[::step][: options.pictures]
        usable: dict[float, list[float]] = {sigma: [] for sigma in strengths()}
        for picture in chosen:
            source = sources.prepared(picture, suite.size)
            for sigma, found in usable.items():
                found.append(lasts(source, Noise(sigma), suite, edits, scorer))
        half_lives = [half_life(float(np.mean(found)), suite.trips) for found in usable.values()]
        told = ", ".join(
            f"noise {sigma:g} {shown_half_life(one, suite.trips)}"
            for sigma, one in zip(usable, half_lives, strict=True)
        )
        good = spread(half_lives, suite.trips)
        missed += not good
        print(f"{name}, {suite.trips} trips, {len(chosen)} pictures: {told}", flush=True)
        if not good:
            print(f"  no four are about a tenth, a quarter, half and all of {suite.trips} trips")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
