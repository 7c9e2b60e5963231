"""Error rates of experiments: `python -m evaluation.benchmarks.experiments` prints a table.

It simulates experiments of four arms (ways to play a suite) on the shipped suites, with lifetimes
as in `evaluation.analysis.power`. Without an effect, at most 5 % of experiments may claim one. With
one arm's lifetimes halved, the table shows how many experiments find exactly this arm, and how
often the arm's interval covers the true effect. "Friedman" is how often the rank test calls arms
different. The test treats cases as independent, so it errs more often if some images or pairs suit
only one arm.
"""

from __future__ import annotations

import argparse

from evaluation.analysis.power import Lifetimes, suite_design
from evaluation.content import catalog
from evaluation.testing.simulations.experiments import FALSE_POSITIVES, simulate

SUITES = ("smoke", "lite")
#: The spread of an arm's own factors of images and pairs, and the repeats of every case.
SETTINGS = ((0.0, 1), (0.1, 1), (0.2, 1), (0.3, 1), (0.2, 3))
PLANTED = {"long": 0.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--experiments", type=int, default=200, help="number simulated for each row"
    )
    options = parser.parse_args()
    for name in SUITES:
        suite = catalog.suite(name)
        design = suite_design(suite)
        print(
            f"{suite.key}: {len(design.cases)} cases, {design.freedom} degrees of freedom,"
            f" {options.experiments} experiments of 4 arms each"
        )
        for own, repeats in SETTINGS:
            times = Lifetimes(0.4 * suite.trips, own_image=own, own_pair=own)
            null, planted = (
                simulate(design, suite.trips, times, options.experiments, effect, repeats=repeats)
                for effect in (None, PLANTED)
            )
            verdict = "" if null.false <= FALSE_POSITIVES else "  <- TOO MANY"
            print(
                f"  own spread {own:.1f}, {repeats} x: without an effect {null.false:.1%} claim one"
                f" (Friedman {null.friedman:.1%}); with long halved {planted.exact:.1%} find only"
                f" long, {planted.false:.1%} another, {planted.covered or 0:.1%} of intervals"
                f" cover{verdict}"
            )


if __name__ == "__main__":
    main()
