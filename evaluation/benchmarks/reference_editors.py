"""Half-lives of the suites' images under reference editors (simple programs) that add noise.

    python -m evaluation.benchmarks.reference_editors --suites portraits --images 5

These editors are the scale of the board: on every suite of N trips, four of them should have
half-lives of about N/10, N/4, N/2 and N. The benchmark fails if one differs from this by more than
a factor of two. Suites of one trip are not checked.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from evaluation.analysis.half_life import shown_half_life
from evaluation.content import catalog
from evaluation.testing.simulations.noise_spread import covers_the_scale, half_lives


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suites", nargs="*", default=[suite.slug for suite in catalog.suites()])
    parser.add_argument(
        "--images", type=int, default=5, help="number of images of each suite, evenly chosen"
    )
    options = parser.parse_args(arguments)
    missed = 0
    for name in options.suites:
        suite = catalog.suite(name)
        by_sigma = half_lives(suite, options.images)
        shown = ", ".join(
            f"noise {sigma:g} {shown_half_life(half_life, suite.trips)}"
            for sigma, half_life in by_sigma.items()
        )
        print(f"{name}, {suite.trips} trips, {options.images} images: {shown}", flush=True)
        if suite.trips > 1 and not covers_the_scale(list(by_sigma.values()), suite.trips):
            missed += 1
            print(
                "  half-lives are not about a tenth, a quarter, a half and all of"
                f" {suite.trips} trips"
            )
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
