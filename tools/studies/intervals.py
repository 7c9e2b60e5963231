"""The study of intervals and ranks: coverage and false differences on the shipped suites."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from evaluation.analysis.covariance import Design
from evaluation.analysis.power import MODELS, detectable_difference, suite_design
from evaluation.cli.playing import find_suite
from evaluation.cli.printing import progress, table
from evaluation.testing.simulations.equal_models import (
    COVERAGE,
    SETTINGS,
    Simulation,
    detected_share,
    simulate,
)

HELP = "simulate boards of equal models: coverage, and equal models reported as different"
DESCRIPTION = """\
Simulates boards of ten equally good models on the cases of the shipped suites. The 95 %
intervals of usable trips must contain the truth for 93 to 99.9 % of the models, and at most
5 % of the boards may report a difference. The second table is about two models that differ:
"found" is the share of boards that detect the difference, which the suite's page promises
for 80 %. The study takes ten minutes."""
SUITES = ("smoke", "lite", "portraits", "standard")
HEAD = (
    "suite",
    "setting",
    "usable trips: coverage",
    "half-life: coverage",
    "usable trips: error",
    "boards with a difference",
    "within limits",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--suite",
        action="append",
        metavar="SUITE",
        help=f"a suite to simulate; may be repeated (default: {', '.join(SUITES)})",
    )
    parser.add_argument("--boards", type=int, default=1000, help="boards per row (default: 1000)")


def run(args: argparse.Namespace) -> None:
    """Simulate and print both tables."""
    suites = [find_suite(name) for name in args.suite or SUITES]
    rows, powers = [], []
    with progress(len(suites) * (len(SETTINGS) + 2), "Simulating", "row") as bar:
        for suite in suites:
            design = suite_design(suite)
            for setting in SETTINGS:
                seen = simulate(design, suite.trips, setting, args.boards)
                rows.append([suite.slug, setting.name, *_cells(seen)])
                bar.update()
            for cells in _powers(design, suite.trips, args.boards):
                powers.append([suite.slug, *cells])
                bar.update()
    print(table(list(HEAD), rows))
    print()
    print(table(["suite", "models", "difference", "found"], powers))


def _cells(seen: Simulation) -> list[str]:
    return [
        f"{seen.coverage:.1%}",
        f"{seen.half_life_coverage:.1%}",
        f"{seen.error:.2f}",
        f"{seen.told_apart:.1%}",
        "yes" if seen.kept else "too wide" if seen.coverage > COVERAGE[1] else "NO",
    ]


def _powers(design: Design, trips: int, boards: int) -> Iterator[list[str]]:
    for own, name in ((0.2, "alike"), (0.3, "differ")):
        apart = detectable_difference(design, trips, own)
        if apart is None:
            yield [f"{MODELS}, {name}", "none", "-"]
            continue
        share = detected_share(design, trips, own, apart, boards)
        yield [f"{MODELS}, {name}", f"{apart:.2f}", f"{share:.0%}"]
