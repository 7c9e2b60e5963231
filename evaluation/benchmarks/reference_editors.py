"""How long images of the suites last under the reference editors of noise: the scale of the board.

    python -m evaluation.benchmarks.reference_editors --suites portraits --images 5

On every suite four of them are to have half-lives of about N/10, N/4, N/2 and N. Fails where no
four are within a factor of two; a suite of one trip has no scale.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from evaluation.analysis.half_life import shown_half_life
from evaluation.content import catalog
from evaluation.testing.simulations.noise_spread import half_lives, spread


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suites", nargs="*", default=[suite.slug for suite in catalog.suites()])
    parser.add_argument("--images", type=int, default=5, help="of each suite, evenly chosen")
    options = parser.parse_args(arguments)
    missed = 0
    for name in options.suites:
        suite = catalog.suite(name)
        found = half_lives(suite, options.images)
        told = ", ".join(
            f"noise {sigma:g} {shown_half_life(one, suite.trips)}" for sigma, one in found.items()
        )
        print(f"{name}, {suite.trips} trips, {options.images} images: {told}", flush=True)
        if suite.trips > 1 and not spread(list(found.values()), suite.trips):
            missed += 1
            print(f"  no four are about a tenth, a quarter, half and all of {suite.trips} trips")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
