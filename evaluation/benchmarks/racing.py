"""Do races keep their promise? `python -m evaluation.benchmarks.racing` prints a table.

Simulated races in eight rounds on suites that ship, against a board of eight models whose true
order is known. The hardest for the promise: a model all but as good as the third asks whether it
is in the top 3, so that whatever is settled in its favour is wrong. At most 5 % may be. Then
models that are clearly better or worse: how many end early, and how much is played.
"""

from __future__ import annotations

import argparse

from evaluation.analysis.power import suite_design
from evaluation.analysis.racing import ALPHA, Race
from evaluation.content import catalog
from evaluation.testing.simulations.races import board, simulate

SUITES = ("lite", "standard")
GOALS = (Race("top", 3), Race("width", 2))
#: The raced model's lifetime beside that of the board's third.
MODELS = {"just below the third": 0.999, "twice the third": 2.0, "half of it": 0.5, "a tenth": 0.1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--races", type=int, default=200, help="simulated for each row")
    options = parser.parse_args()
    for name in SUITES:
        suite = catalog.suite(name)
        design = suite_design(suite)
        print(f"{suite.key}: {len(design.cases)} cases, {options.races} races a row, 8 rounds")
        for race in GOALS:
            for words, ratio in MODELS.items():
                others = board(suite.trips)
                medians = [*others, others[2] * ratio]
                found = simulate(design, suite.trips, race, medians, options.races)
                kept = "" if found.wrong <= ALPHA else "  <- NOT KEPT"
                print(
                    f"  {race.goal} {race.number}, {words}: settled early {found.settled:.0%}, "
                    f"wrongly {found.wrong:.1%}, cases played {found.played:.0%}{kept}"
                )


if __name__ == "__main__":
    main()
