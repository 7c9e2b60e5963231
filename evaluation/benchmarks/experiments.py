"""Do experiments keep their promise? `python -m evaluation.benchmarks.experiments` prints a table.

Simulated experiments of four arms on the suites that ship, their lifetimes drawn as in
`evaluation.analysis.power`: without an effect at most 5 % may claim one; with one arm's
lifetimes halved, how many find this arm and no other, and how often its interval holds the true
effect. "Friedman" is how often the rank test calls the arms different: it takes cases for
independent, so where arms have an image or pair of their own that suits them it errs more often.
"""

from __future__ import annotations

import argparse

from evaluation.analysis.power import Lifetimes, suite_design
from evaluation.content import catalog
from evaluation.testing.simulations.experiments import FALSE_POSITIVES, simulate

SUITES = ("smoke", "lite")
#: Spread of what suits an arm for itself, by image and by pair; repeats of every case.
SETTINGS = ((0.0, 1), (0.1, 1), (0.2, 1), (0.3, 1), (0.2, 3))
PLANTED = {"long": 0.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=200, help="simulated for each row")
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
            kept = "" if null.false <= FALSE_POSITIVES else "  <- NOT KEPT"
            print(
                f"  own {own:.1f}, {repeats} x: none planted, claimed {null.false:.1%}"
                f" (Friedman {null.friedman:.1%}); long halved, found just that"
                f" {planted.exact:.1%}, another {planted.false:.1%},"
                f" interval holds {planted.covered or 0:.1%}{kept}"
            )


if __name__ == "__main__":
    main()
