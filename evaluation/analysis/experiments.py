"""Effects of arms: the same cases played in several ways.

The effect of an arm is its usable trips minus those of the first, case by case. Its interval covers
other images and other edits, as every interval here does (method §6), and all arms at once:
with 95 % none of them misses. An effect is sure only if its interval excludes 0. Friedman's
test and its post-hoc test rank the arms within each case. They treat cases as independent,
which cases with a common image or pair are not, so they are shown beside the intervals.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evaluation.analysis.case_values import CaseValues, case_values
from evaluation.analysis.covariance import (
    CONFIDENCE,
    SEED,
    Design,
    Interval,
    errors_of,
    t_quantile,
)
from evaluation.analysis.events import TOLERANCE, Case, ChainResult
from evaluation.analysis.ranking import Bounds
from evaluation.analysis.robustness import RepeatSpread, repeat_spread
from evaluation.analysis.survival import Floats, half_life
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD

DRAWS = 10_000
#: The largest number of tied differences tested exactly, as in scipy; more are approximated.
ALL_SIGNS = 13


@dataclass(frozen=True)
class Effect:
    """One arm beside the baseline, on the cases that all arms have.

    `difference` in usable trips, with an interval that holds for all arms at once; None if the
    images or pairs are too few. `sure` is True if it excludes 0. The baseline's own is 0.
    """

    arm: str
    usable_trips: float
    half_life: float | None
    interval: Interval | None  # of the arm's own usable trips
    auc: float | None
    difference: float
    low: float | None
    high: float | None
    sure: bool
    auc_difference: float | None


@dataclass(frozen=True)
class Pairwise:
    """Two arms by the signed-rank test; `p` is corrected by Holm's method."""

    first: str
    second: str
    difference: float
    p: float


@dataclass(frozen=True)
class RankTest:
    """Friedman's test over cases; for two arms the signed-rank test alone.

    `mean_ranks`: 1 is the arm that lasts longest in every case. `statistic` and `p` are None
    with fewer than two cases.
    """

    test: str
    cases: int
    statistic: float | None
    p: float | None
    mean_ranks: dict[str, float]
    pairs: tuple[Pairwise, ...]


@dataclass(frozen=True)
class Sensitivity:
    """Differences between arms within one category.

    `spread` = standard deviation of their usable trips, `by_rerun` = its expected value if arms
    differed by chance alone, by the reruns of all arms; None without reruns.
    """

    category: str
    cases: int
    usable_trips: dict[str, float]
    spread: float
    range: float
    best: str
    worst: str
    by_rerun: float | None


@dataclass(frozen=True)
class ExperimentNumbers:
    """All numbers of an experiment by one metric at one threshold."""

    baseline: str
    trips: int
    cases: int
    images: int
    pairs: int
    enough: bool
    effects: tuple[Effect, ...]
    ranks: RankTest
    sensitivity: tuple[Sensitivity, ...]
    reruns: dict[str, RepeatSpread]
    curves: dict[str, dict[str, list[float | None]]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as stored and shown."""
        reruns = {arm: asdict(spread) | {"icc": spread.icc} for arm, spread in self.reruns.items()}
        data: dict[str, Any] = json.loads(json.dumps(asdict(self) | {"reruns": reruns}))
        return data

    @property
    def found(self) -> list[Effect]:
        """Return the arms that surely differ from the baseline."""
        return [effect for effect in self.effects if effect.sure]


def experiment_numbers(
    arms: Mapping[str, Sequence[ChainResult]],
    trips: int,
    threshold: float = DEFAULT_THRESHOLD,
    *,
    seed: int = SEED,
) -> ExperimentNumbers:
    """Compare the arms with the first one. Raises ValueError if they share no case."""
    names = list(arms)
    if len(names) < 2:
        raise ValueError("an experiment has a baseline and at least one other arm")
    values = {name: case_values(chains, trips, threshold) for name, chains in arms.items()}
    shared = sorted(set.intersection(*(set(of_arm.cases) for of_arm in values.values())))
    if not shared:
        raise ValueError("the arms have no case in common")
    values = {name: of_arm.only(shared) for name, of_arm in values.items()}
    design = values[names[0]].design
    usable = np.column_stack([values[name].usable for name in names])
    reruns = {name: repeat_spread(chains, trips, threshold) for name, chains in arms.items()}
    return ExperimentNumbers(
        baseline=names[0],
        trips=trips,
        cases=len(shared),
        images=design.images,
        pairs=design.pairs,
        enough=design.enough,
        effects=_effects(values, seed),
        ranks=rank_test(names, usable),
        sensitivity=_sensitivity(design, names, usable, reruns, arms),
        reruns=reruns,
        curves={name: _curve(of_arm) for name, of_arm in values.items()},
    )


def _effects(values: Mapping[str, CaseValues], seed: int) -> tuple[Effect, ...]:
    names = list(values)
    first = values[names[0]]
    design = first.design
    usable = np.column_stack([values[name].usable for name in names])
    differences = [0.0, *design.mean(usable[:, 1:] - usable[:, :1]).tolist()]
    reach = None
    if design.enough:
        reach = [0.0, *simultaneous_half_widths(design, usable, first.trips, seed).tolist()]
    effects = []
    for place, name in enumerate(names):
        of_arm, difference = values[name], differences[place]
        mean_trips, auc = (float(design.mean(column)) for column in (of_arm.usable, of_arm.auc))
        by_auc = auc - float(design.mean(first.auc))
        far = reach[place] if reach else None
        effects.append(
            Effect(
                arm=name,
                usable_trips=mean_trips,
                half_life=half_life(of_arm.ends, design.mean(of_arm.survival)),
                interval=Bounds.of(of_arm).usable_trips,
                auc=None if math.isnan(auc) else auc,
                difference=difference,
                low=None if far is None else difference - far,
                high=None if far is None else difference + far,
                sure=far is not None and abs(difference) > max(far, TOLERANCE),
                auc_difference=None if math.isnan(by_auc) else by_auc,
            )
        )
    return tuple(effects)


def simultaneous_half_widths(
    design: Design, usable: Floats, trips: int, seed: int = SEED
) -> Floats:
    """Return the half-width of each effect's interval, with 95 % for all at once.

    `usable` = usable trips by case, a column for each arm, the baseline first. Arms are treated
    as models: each has pseudo-clusters alone, since an edit may fail with one prompt only.
    """
    shares = design.shares(usable, trips)
    apart = shares[:, 1:] - shares[:, :1]
    errors = errors_of(apart)
    if apart.shape[1] == 1:
        return np.asarray(t_quantile((1 + CONFIDENCE) / 2, design.freedom) * errors)
    scale = np.divide(1, errors, out=np.zeros_like(errors), where=errors > TOLERANCE)
    largest = np.abs(design.draws(apart, DRAWS, seed) * scale).max(axis=1)
    return np.asarray(float(np.quantile(largest, CONFIDENCE)) * errors)


def rank_test(names: Sequence[str], usable: Floats) -> RankTest:
    """Run Friedman's test of arms (columns) within cases (rows), with its post-hoc."""
    from scipy.stats import friedmanchisquare, rankdata

    # Rounded, so that arms that are equal but for the order of a sum are tied.
    usable = np.round(usable, 9)
    ranks = rankdata(-usable, axis=1).mean(axis=0).tolist()
    mean_ranks = dict(zip(names, ranks, strict=True))
    rows = len(usable)
    if len(names) == 2:
        p = signed_rank(usable[:, 1] - usable[:, 0]) if rows > 1 else None
        return RankTest("signed-rank", rows, None, p, mean_ranks, ())
    if rows < 2:
        return RankTest("friedman", rows, None, None, mean_ranks, ())
    if (usable == usable[:, :1]).all():  # scipy would divide by zero
        statistic, p = 0.0, 1.0
    else:
        result = friedmanchisquare(*usable.T)
        statistic, p = float(result.statistic), float(result.pvalue)
    return RankTest("friedman", rows, statistic, p, mean_ranks, _post_hoc(names, usable))


def _post_hoc(names: Sequence[str], usable: Floats) -> tuple[Pairwise, ...]:
    both = list(itertools.combinations(range(len(names)), 2))
    raw = [signed_rank(usable[:, second] - usable[:, first]) for first, second in both]
    return tuple(
        Pairwise(
            names[first], names[second], float(np.mean(usable[:, second] - usable[:, first])), p
        )
        for (first, second), p in zip(both, holm(raw), strict=True)
    )


def signed_rank(differences: Floats) -> float:
    """Return the p-value of Wilcoxon's signed-rank test; zeros are split.

    It equals scipy's. For few differences with ties scipy tries all signs one after another,
    which takes half a second instead of a millisecond.
    """
    from scipy.stats import rankdata, wilcoxon

    sizes = np.abs(differences)
    if not sizes.any():
        return 1.0
    untied = sizes.all() and len(np.unique(sizes)) == len(sizes)
    if untied or len(sizes) > ALL_SIGNS:
        return float(wilcoxon(differences, zero_method="zsplit").pvalue)
    ranks, greater = rankdata(sizes)[sizes > 0], differences[sizes > 0] > 0
    signs = np.arange(2 ** len(ranks))[:, None] >> np.arange(len(ranks)) & 1
    sums, observed = signs @ ranks, ranks[greater].sum()  # halves, so exact
    return min(1.0, 2 * float(min(np.mean(sums <= observed), np.mean(sums >= observed))))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values of one family, each corrected for all of them (Holm 1979)."""
    count, corrected, largest = len(p_values), [0.0] * len(p_values), 0.0
    for place, index in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (count - place) * p_values[index]))
        corrected[index] = largest
    return corrected


def _sensitivity(
    design: Design,
    names: Sequence[str],
    usable: Floats,
    reruns: Mapping[str, RepeatSpread],
    arms: Mapping[str, Sequence[ChainResult]],
) -> tuple[Sensitivity, ...]:
    categories = sorted({case.category for case in design.cases})
    spreads = [spread.rerun for spread in reruns.values() if spread.rerun is not None]
    rerun = math.sqrt(float(np.mean(np.square(spreads)))) if spreads else None
    rows_by_category = []
    for category in categories:
        rows = [row for row, case in enumerate(design.cases) if case.category == category]
        means = usable[rows].mean(axis=0)
        best, worst = int(means.argmax()), int(means.argmin())
        chains = _chains_per_case([design.cases[row] for row in rows], arms)
        rows_by_category.append(
            Sensitivity(
                category=category,
                cases=len(rows),
                usable_trips=dict(zip(names, means.tolist(), strict=True)),
                spread=float(means.std(ddof=1)),
                range=float(np.ptp(means)),
                best=names[best],
                worst=names[worst],
                by_rerun=None if rerun is None else rerun / math.sqrt(chains * len(rows)),
            )
        )
    return tuple(rows_by_category)


def _chains_per_case(cases: Sequence[Case], arms: Mapping[str, Sequence[ChainResult]]) -> float:
    wanted = set(cases)
    chains = sum(chain.case in wanted for of_arm in arms.values() for chain in of_arm)
    return max(1.0, chains / (len(arms) * len(cases)))


def _curve(values: CaseValues) -> dict[str, list[float | None]]:
    bounds = Bounds.of(values).curve or ()
    mean = values.design.mean(values.curve).tolist()
    return {
        "mean": [None if math.isnan(q) else round(q, 4) for q in mean],
        "low": [_rounded(interval.low) if interval else None for interval in bounds],
        "high": [_rounded(interval.high) if interval else None for interval in bounds],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
