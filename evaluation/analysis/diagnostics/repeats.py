"""Reruns of the same case: how much a model's luck matters beside the choice of cases."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.analysis.events import LOST, Case, ChainResult, event
from evaluation.analysis.levels import DEFAULT_LEVEL


@dataclass(frozen=True)
class RepeatSpread:
    """Spread of the usable trips of a chain, as standard deviations.

    `rerun` = between reruns of one case, `case` = between cases once the reruns'
    share is taken out. `friedman_p` asks whether the repeats differ as a whole (the
    model behind a name was changed, say): a small value says yes. None where
    it cannot be asked: fewer than two repeats, for Friedman fewer than three.
    """

    repeats: int
    cases: int
    rerun: float | None
    case: float | None
    friedman_statistic: float | None
    friedman_p: float | None

    @property
    def icc(self) -> float | None:
        """Intraclass correlation: the share of a chain's variance that its case explains.

        1: a rerun gives the same; 0: cases are told apart by nothing but luck.
        """
        if self.rerun is None or self.case is None:
            return None
        whole = self.rerun**2 + self.case**2
        return self.case**2 / whole if whole else None


def repeat_spread(
    chains: Sequence[ChainResult], trips: int, level: float = DEFAULT_LEVEL
) -> RepeatSpread:
    """Rerun spread beside case spread (one-way variance components), and Friedman's test."""
    times: dict[Case, dict[int, float]] = defaultdict(dict)
    for chain in chains:
        if chain.outcome != LOST:
            times[chain.case][chain.repeat] = event(chain, trips, level).time
    repeats = len({repeat for runs in times.values() for repeat in runs})
    rerun, case = _components([list(runs.values()) for runs in times.values()])
    statistic, p = _friedman([runs for runs in times.values() if len(runs) == repeats])
    return RepeatSpread(repeats, len(times), rerun, case, statistic, p)


def _components(groups: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    """Standard deviations within and between groups, by analysis of variance."""
    sizes = np.array([len(group) for group in groups])
    freedom = int((sizes - 1).sum())
    if freedom < 1 or len(groups) < 2:
        return None, None
    means = np.array([np.mean(group) for group in groups])
    within = sum(float(np.var(g)) * len(g) for g in groups) / freedom
    grand = float(sizes @ means / sizes.sum())
    between = float(sizes @ (means - grand) ** 2) / (len(groups) - 1)
    typical = (sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(groups) - 1)
    return math.sqrt(within), math.sqrt(max(0.0, (between - within) / typical))


def _friedman(blocks: Sequence[dict[int, float]]) -> tuple[float | None, float | None]:
    from scipy.stats import friedmanchisquare

    if len(blocks) < 2 or len(blocks[0]) < 3:
        return None, None
    columns = np.array([[block[repeat] for repeat in sorted(block)] for block in blocks])
    if (columns == columns[:, :1]).all():
        return 0.0, 1.0  # all reruns alike: scipy would divide by zero
    result = friedmanchisquare(*columns.T)
    return float(result.statistic), float(result.pvalue)
