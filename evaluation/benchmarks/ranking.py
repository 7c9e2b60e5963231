"""How long a board takes, and whether its intervals and ranks keep their promise.

`python -m evaluation.benchmarks.ranking` prints, for 30 runs x 300 cases with all summaries,
seconds and how many times longer the loop takes that anybody would write first: resample
pictures and pairs 2,000 times, scipy's Kaplan-Meier per category in each. That loop is timed
over some resamples of one run and scaled.

Then the table of the method's promises, by simulation on the suites that ship and on designs
of their sizes: ten equal models, whose lifetimes are drawn as in `evaluation.analysis.power`.
The 95 % interval of the usable trips must cover the truth in 93 to 98 %, equal models may get
more than one rank on at most 5 % of boards. "Found" is how many boards show the difference
that the suite's power promises to find in 80 %.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
from scipy.stats import CensoredData, ecdf

from evaluation.analysis.case_values import carried
from evaluation.analysis.covariance import Design
from evaluation.analysis.events import ChainResult, event
from evaluation.analysis.power import MODELS, Lifetimes, detectable, suite_design
from evaluation.analysis.ranking import board
from evaluation.analysis.survival import Floats
from evaluation.content import catalog
from evaluation.testing.chains import made_up_cases
from evaluation.testing.simulations.equal_models import found, simulate

TRIPS = 20
CATEGORIES = ("objects", "geometric", "replication")
KINDS = ("face", "object", "scene")
RESAMPLES = 2_000
#: Spread of what a model finds hard for itself: by picture, by pair.
SETTINGS = ((0.0, 0.0), (0.2, 0.2), (0.3, 0.3), (0.5, 0.2), (0.2, 0.5))
#: Cases, pictures, pairs, categories, trips: a self-test, a short suite, the board's.
SHAPES = ((14, 10, 12, 4, 8), (24, 10, 12, 4, 10), (40, 16, 24, 6, 10), (300, 97, 36, 8, 20))


# Promises


def print_promises(boards: int) -> None:
    designs = [(suite.slug, suite_design(suite), suite.trips) for suite in catalog.suites()]
    for *shape, trips in SHAPES:
        designs.append((f"{shape[0]} cases", Design(made_up_cases(*shape)), trips))
    print(f"promises, {boards} boards of {MODELS} equal models each:")
    for name, design, trips in designs:
        size = (
            f"{name}: {len(design.cases)} cases, {design.pictures} pictures,"
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
        for by_picture, by_pair in SETTINGS:
            lifetimes = Lifetimes(0.4 * trips, own_picture=by_picture, own_pair=by_pair)
            seen = simulate(design, trips, lifetimes, boards)
            print(
                f"    own {by_picture:.1f} by picture, {by_pair:.1f} by pair:"
                f" covers {seen.coverage:.1%}, told apart {seen.told_apart:.1%},"
                f" sets against the order {seen.against_order:.1%}{'' if seen.kept else '  <- NOT KEPT'}"
            )


# Speed


def made_up_run(strength: float, pictures: int, random: np.random.Generator) -> list[ChainResult]:
    """Three cases a picture, one chain in fifty refused, one in a hundred lost."""
    numbers = np.arange(1, TRIPS + 1)
    run = []
    for picture in range(pictures):
        for category in CATEGORIES:
            time_to_half = strength * np.exp(random.normal(0, 0.5))
            ends = random.random()
            kept = int(random.integers(1, TRIPS)) if ends < 0.03 else TRIPS
            run.append(
                ChainResult(
                    picture=f"picture-{picture:03}",
                    pair=f"{category}-{picture % 10}",
                    category=category,
                    kind=KINDS[picture % len(KINDS)],
                    repeat=0,
                    retention=tuple((0.5 ** (numbers / time_to_half))[:kept].tolist()),
                    outcome="refused" if ends < 0.02 else "lost" if ends < 0.03 else "completed",
                    change_seen=(True,) * kept,
                )
            )
    return run


class NaiveRun:
    """The loop's side: event times and curves once, then each resample by scipy."""

    def __init__(self, run: Sequence[ChainResult]) -> None:
        self.events = [event(chain, TRIPS) for chain in run]
        self.curves = np.array([carried(chain, TRIPS) for chain in run])
        self.category = np.array([chain.category for chain in run])
        self.picture = np.unique([chain.picture for chain in run], return_inverse=True)[1]
        self.pair = np.unique([chain.pair for chain in run], return_inverse=True)[1]

    def resample(self, random: np.random.Generator) -> Floats:
        """Draw pictures and pairs; usable trips and mean curve, category by category."""
        count = self._drawn(self.picture, random) * self._drawn(self.pair, random)
        grid = np.unique([0.0, *(e.time for e in self.events if e.cause)])
        means = []
        for category in np.unique(self.category):
            rows = np.repeat(np.arange(len(count)), count * (self.category == category))
            drawn = [self.events[row] for row in rows]
            ended = [e.time for e in drawn if e.cause]
            censored = [e.time for e in drawn if not e.cause]
            survival = ecdf(CensoredData(uncensored=ended, right=censored)).sf.evaluate(grid)
            usable = np.diff(grid, append=TRIPS) @ survival
            means.append([usable, *np.nanmean(self.curves[rows], axis=0)])
        return np.asarray(np.mean(means, axis=0))

    @staticmethod
    def _drawn(members: np.ndarray, random: np.random.Generator) -> np.ndarray:
        names = members.max() + 1
        counts = np.bincount(random.integers(0, names, names), minlength=names)
        return np.asarray(counts[members])


def print_speed(runs: int, pictures: int, naive: int) -> None:
    random = np.random.default_rng(0)
    made = {f"run-{i:02}": made_up_run(4 + i / 3, pictures, random) for i in range(runs)}
    start = time.perf_counter()
    board(made, TRIPS)
    seconds = time.perf_counter() - start
    loop = NaiveRun(made["run-00"])
    start = time.perf_counter()
    for _ in range(naive):
        loop.resample(random)
    whole = (time.perf_counter() - start) / naive * RESAMPLES * runs
    print(
        f"ranking: {runs} runs x {pictures * len(CATEGORIES)} cases, with summaries:"
        f" {seconds:.2f} s, {whole / seconds:.0f} times faster than {RESAMPLES} resamples"
        f" in a loop ({whole:.0f} s)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--naive", type=int, default=100, help="resamples of the naive loop")
    parser.add_argument("--boards", type=int, default=300, help="simulated boards per setting")
    options = parser.parse_args()
    print_speed(options.runs, options.pictures, options.naive)
    print_promises(options.boards)


if __name__ == "__main__":
    main()
