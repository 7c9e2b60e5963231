"""Whether intervals and ranks keep their promise: `python -m evaluation.benchmarks.ranking`.

The table of the method's promises, by simulation on the suites that ship and on designs of
their sizes: ten equal models, whose lifetimes are drawn as in `evaluation.analysis.power`.
The 95 % interval of the usable trips must cover the truth in 93 to 98 %, equal models may get
more than one rank on at most 5 % of boards. "Found" is how many boards show the difference
that the suite's power promises to find in 80 %.
"""

from __future__ import annotations

import argparse

from evaluation.analysis.covariance import Design
from evaluation.analysis.power import MODELS, Lifetimes, detectable, suite_design
from evaluation.content import catalog
from evaluation.testing.chains import made_up_cases
from evaluation.testing.simulations.equal_models import found, simulate

#: Spread of what a model finds hard for itself: by image, by pair.
SETTINGS = ((0.0, 0.0), (0.2, 0.2), (0.3, 0.3), (0.5, 0.2), (0.2, 0.5))
#: Cases, images, pairs, categories, trips: a self-test, a short suite, the board's.
SHAPES = ((14, 10, 12, 4, 8), (24, 10, 12, 4, 10), (40, 16, 24, 6, 10), (300, 97, 36, 8, 20))


def print_promises(boards: int) -> None:
    designs = [(suite.slug, suite_design(suite), suite.trips) for suite in catalog.suites()]
    for *shape, trips in SHAPES:
        designs.append((f"{shape[0]} cases", Design(made_up_cases(*shape)), trips))
    print(f"promises, {boards} boards of {MODELS} equal models each:")
    for name, design, trips in designs:
        size = (
            f"{name}: {len(design.cases)} cases, {design.images} images,"
            f" {design.pairs} pairs, {design.categories} categories, {trips} trips"
        )
        if not design.enough:
            print(f"  {size}: too few for an interval, nobody is told apart")
            continue
        print(f"  {size}, {design.freedom} degrees of freedom")
        for own in (0.2, 0.3):
            apart = detectable(design, trips, own)
            if apart is None:
                print(f"    own {own:.1f}: no difference is found in 80 %")
                continue
            share = found(design, trips, own, apart, boards)
            print(f"    own {own:.1f}: finds {apart:.2f} trips in 80 %; found {share:.0%}")
        for by_image, by_pair in SETTINGS:
            lifetimes = Lifetimes(0.4 * trips, own_image=by_image, own_pair=by_pair)
            seen = simulate(design, trips, lifetimes, boards)
            print(
                f"    own {by_image:.1f} by image, {by_pair:.1f} by pair:"
                f" covers {seen.coverage:.1%}, told apart {seen.told_apart:.1%},"
                f" sets against the order {seen.against_order:.1%}{'' if seen.kept else '  <- NOT KEPT'}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boards", type=int, default=300, help="simulated boards per setting")
    options = parser.parse_args()
    print_promises(options.boards)


if __name__ == "__main__":
    main()
