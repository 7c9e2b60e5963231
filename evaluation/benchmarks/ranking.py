"""How long a board takes: 30 runs x 300 cases x 2,000 resamples.

`python -m evaluation.benchmarks.ranking` prints seconds, peak memory, and how
many times longer the loop takes that anybody would write first: for every run
and resample draw chains, then scipy's Kaplan-Meier per stratum. That loop is
timed over some resamples of one run and scaled.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence

import numpy as np
from scipy.stats import CensoredData, ecdf

from evaluation.statistics.half_life import ChainResult, area, carried, event, stratum_weights
from evaluation.statistics.levels import DEFAULT_LEVEL
from evaluation.statistics.ranking import board
from evaluation.statistics.resampling import RESAMPLES

TRIPS = 20
CATEGORIES = ("objects", "geometric", "replication")
KINDS = ("face", "object", "scene")


def made_up_run(strength: float, pictures: int, random: np.random.Generator) -> list[ChainResult]:
    """A run in the shape of v1: three cases a picture, one chain in fifty refused."""
    numbers = np.arange(1, TRIPS + 1)
    run = []
    for picture in range(pictures):
        for category in CATEGORIES:
            time_to_half = strength * np.exp(random.normal(0, 0.5))
            kept = int(random.integers(0, TRIPS)) if random.random() < 0.02 else TRIPS
            run.append(
                ChainResult(
                    picture=f"picture-{picture:03}",
                    pair=f"{category}-{picture % 10}",
                    category=category,
                    kind=KINDS[picture % len(KINDS)],
                    repeat=0,
                    retention=tuple((0.5 ** (numbers / time_to_half))[:kept].tolist()),
                    outcome="completed" if kept == TRIPS else "refused",
                    change_seen=(True,) * kept,
                )
            )
    return run


class NaiveRun:
    """The loop's side: event times and curves once, then each resample by scipy."""

    def __init__(self, run: Sequence[ChainResult]) -> None:
        self.events = [event(chain, TRIPS, DEFAULT_LEVEL) for chain in run]
        self.curves = np.array([carried(chain, TRIPS) for chain in run])
        self.strata = [chain.stratum for chain in run]
        rows: dict[str, list[int]] = {}
        for row, chain in enumerate(run):
            rows.setdefault(chain.picture, []).append(row)
        self.pictures = list(rows.values())

    def resample(self, random: np.random.Generator) -> None:
        """Draw pictures, then pairs of each; half-life, usable trips, mean curve, AUC."""
        strata: dict[tuple[str, str], list[int]] = {}
        for picture in random.integers(0, len(self.pictures), len(self.pictures)):
            for row in random.choice(self.pictures[picture], len(self.pictures[picture])):
                strata.setdefault(self.strata[row], []).append(row)
        grid = np.unique([0.0, *(e.time for e in self.events if e.kind)])
        shares = stratum_weights(strata)
        survival, curve = np.zeros_like(grid), np.zeros(TRIPS + 1)
        for stratum, rows in strata.items():
            drawn = [self.events[row] for row in rows]
            ended = [e.time for e in drawn if e.kind]
            censored = [e.time for e in drawn if not e.kind]
            step = ecdf(CensoredData(uncensored=ended, right=censored)).sf
            survival += shares[stratum] * step.evaluate(grid)
            curve += shares[stratum] * self.curves[rows].mean(axis=0)
        np.searchsorted(-survival, -0.5)
        np.diff(grid, append=TRIPS) @ survival
        area(curve)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--naive", type=int, default=100, help="resamples of the naive loop")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    runs = {
        f"run-{i:02}": made_up_run(4 + i / 3, options.pictures, random) for i in range(options.runs)
    }
    before = peak_mb()
    start = time.perf_counter()
    board(runs, TRIPS)
    seconds = time.perf_counter() - start
    after = peak_mb()
    loop = NaiveRun(runs["run-00"])
    start = time.perf_counter()
    for _ in range(options.naive):
        loop.resample(random)
    naive = (time.perf_counter() - start) / options.naive * RESAMPLES * options.runs
    print(
        f"ranking: {options.runs} runs x {options.pictures * len(CATEGORIES)} cases"
        f" x {RESAMPLES} resamples: {seconds:.2f} s,"
        f" peak {after:.0f} MB ({after - before:.0f} MB its own),"
        f" {naive / seconds:.0f} times faster than the naive loop ({naive:.0f} s)"
    )


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
