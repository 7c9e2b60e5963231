"""Diagnostics of cases across runs: difficulty, discrimination, ill-posed cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.analysis.case_values import extended_curve
from evaluation.analysis.events import COMPLETED, LOST, TOLERANCE, ChainResult, event
from evaluation.analysis.survival import Floats
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD

ILL_POSED, MISLEADING, TOO_EASY, TOO_HARD = "ill_posed", "misleading", "too_easy", "too_hard"
MIN_RUNS = 3  # because two runs may agree by chance
MIN_RUNS_CORRELATED = 5
JUMP = 0.1  # an ill-posed case loses at least this retention in trip 1,
UNUSUAL = 2.0  # and this many times the run's median loss (a poor model loses much in every case),
FLAT = 0.25  # and changes little later: at most by this share of the first loss
MISLEADING_P = 0.01  # significance level: 300 cases give three false alarms


@dataclass(frozen=True)
class CaseDiagnosis:
    """One case across runs.

    `difficulty` is 1 - the mean share of usable trips. `discrimination` is the correlation, across
    runs, of a run's result on this case with the run's mean over all other cases; None with fewer
    than five runs or without spread. `jump` is the smallest loss of any run in trip 1.

    `flags` propose a review: "ill_posed" (every run loses unusually much in trip 1, then nothing
    changes), "misleading" (better models are worse on this case), "too_easy", "too_hard".
    """

    image: str
    pair: str
    runs: int
    difficulty: float
    discrimination: float | None
    jump: float
    flags: tuple[str, ...]

    @property
    def quarantine(self) -> bool:
        """Return True if the suite's next version should leave out the case."""
        return ILL_POSED in self.flags or MISLEADING in self.flags


def diagnose(
    runs: Mapping[str, Sequence[ChainResult]], trips: int, threshold: float = DEFAULT_THRESHOLD
) -> list[CaseDiagnosis]:
    """Diagnose the cases with an uninterrupted chain: first those to leave out, then the hardest."""
    played = [run for chains in runs.values() if (run := _by_case(chains))]
    cases = sorted({case for run in played for case in run})
    share = np.full((len(played), len(cases)), np.nan)
    jump, after = share.copy(), share.copy()
    for row, run in enumerate(played):
        for column, case in enumerate(cases):
            if chains := run.get(case):
                curve = np.mean([extended_curve(chain, trips) for chain in chains], axis=0)
                times = [event(chain, trips, threshold).time for chain in chains]
                share[row, column] = np.mean(times) / trips
                jump[row, column] = 1 - curve[1]
                # The zeros after a chain broke do not change either, but not because of the pair.
                completed = all(chain.outcome == COMPLETED for chain in chains)
                after[row, column] = np.abs(curve[1:] - curve[1]).max() if completed else np.inf
    ill_posed = _ill_posed(jump, after) if trips > 2 else np.zeros(len(cases), dtype=bool)
    diagnoses = []
    for column, (image, pair) in enumerate(cases):
        measured = ~np.isnan(share[:, column])
        shares = share[measured, column]
        other_shares = np.delete(share[measured], column, axis=1)
        correlation, misleading = _discrimination(shares, other_shares)
        flags = {
            ILL_POSED: bool(ill_posed[column]),
            MISLEADING: misleading,
            TOO_EASY: shares.size >= MIN_RUNS and bool((shares == 1).all()),
            TOO_HARD: shares.size >= MIN_RUNS and bool((shares == 0).all()),
        }
        diagnoses.append(
            CaseDiagnosis(
                image=image,
                pair=pair,
                runs=int(shares.size),
                difficulty=float(1 - shares.mean()),
                discrimination=correlation,
                jump=float(np.nanmin(jump[:, column])),
                flags=tuple(flag for flag, raised in flags.items() if raised),
            )
        )
    return sorted(diagnoses, key=lambda c: (not c.quarantine, -c.difficulty, c.image, c.pair))


def _by_case(chains: Sequence[ChainResult]) -> dict[tuple[str, str], list[ChainResult]]:
    cases: dict[tuple[str, str], list[ChainResult]] = defaultdict(list)
    for chain in chains:
        if chain.outcome != LOST:
            cases[chain.image, chain.pair].append(chain)
    return cases


def _ill_posed(jump: Floats, after: Floats) -> Floats:
    usual = np.nanmedian(jump, axis=1, keepdims=True)
    measured = ~np.isnan(jump)
    sign = (jump >= JUMP) & (jump >= UNUSUAL * usual) & (after <= FLAT * jump)
    return (sign | ~measured).all(axis=0) & (measured.sum(axis=0) >= MIN_RUNS)


def _discrimination(shares: Floats, other_shares: Floats) -> tuple[float | None, bool]:
    from scipy.stats import pearsonr

    measured = ~np.isnan(other_shares).all(axis=1)
    shares, other_shares = shares[measured], other_shares[measured]
    if shares.size < MIN_RUNS_CORRELATED:
        return None, False
    means = np.nanmean(other_shares, axis=1)
    if min(np.ptp(shares), np.ptp(means)) < TOLERANCE:
        return None, False
    result = pearsonr(shares, means, alternative="less")
    return float(result.statistic), bool(result.pvalue < MISLEADING_P)
