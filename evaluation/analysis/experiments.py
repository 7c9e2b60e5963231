"""Effects of an experiment's arms, the different ways in which the same cases are played.

The first arm is the baseline. The effect of an arm is the mean over cases of its usable trips minus
those of the baseline. Intervals allow for the choice of images and edits (docs/method.md) and hold
simultaneously: with 95 % probability all of them contain the true effects. An effect is significant
(`sure`) if its interval excludes 0.

Friedman's test and its post-hoc tests rank the arms within each case. They treat cases as
independent, although some share an image or a pair, so they are only additional information.
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
#: Up to this number, tied differences are tested exactly; more of them approximately, as in scipy.
MAX_EXACT = 13


@dataclass(frozen=True)
class Effect:
    """One arm compared with the baseline, on the cases that all arms share.

    `difference` is in usable trips; it is 0 for the baseline. Its simultaneous interval is from
    `low` to `high`, which are None if there are too few images or pairs. `sure` is True if the
    interval excludes 0.
    """

    arm: str
    usable_trips: float
    half_life: float | None
    interval: Interval | None  # the interval of `usable_trips`
    auc: float | None
    difference: float
    low: float | None
    high: float | None
    sure: bool
    auc_difference: float | None


@dataclass(frozen=True)
class Pairwise:
    """Two arms compared by the signed-rank test; `p` is corrected by Holm's method."""

    first: str
    second: str
    difference: float
    p: float


@dataclass(frozen=True)
class RankTest:
    """Friedman's test over cases, or the signed-rank test if there are two arms.

    An arm with the mean rank 1 has the most usable trips in every case. `statistic` and `p` are
    None with fewer than two cases.
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

    `spread` is the standard deviation of the arms' usable trips. `by_rerun` is the spread expected
    if arms were only reruns of each other; None without reruns.
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
        """Return plain data for storage and display."""
        reruns = {arm: asdict(spread) | {"icc": spread.icc} for arm, spread in self.reruns.items()}
        data: dict[str, Any] = json.loads(json.dumps(asdict(self) | {"reruns": reruns}))
        return data

    @property
    def sure_effects(self) -> list[Effect]:
        """Return the effects whose interval excludes 0."""
        return [effect for effect in self.effects if effect.sure]


def experiment_numbers(
    arms: Mapping[str, Sequence[ChainResult]],
    trips: int,
    threshold: float = DEFAULT_THRESHOLD,
    *,
    seed: int = SEED,
) -> ExperimentNumbers:
    """Compare all arms with the first.

    Raises ValueError if there are fewer than two arms or if they share no case.
    """
    names = list(arms)
    if len(names) < 2:
        raise ValueError("an experiment needs a baseline and at least one other arm")
    values = {name: case_values(chains, trips, threshold) for name, chains in arms.items()}
    shared = sorted(set.intersection(*(set(arm_values.cases) for arm_values in values.values())))
    if not shared:
        raise ValueError("the arms have no case in common")
    values = {name: arm_values.only(shared) for name, arm_values in values.items()}
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
        curves={name: _curve(arm_values) for name, arm_values in values.items()},
    )


def _effects(values: Mapping[str, CaseValues], seed: int) -> tuple[Effect, ...]:
    names = list(values)
    first = values[names[0]]
    design = first.design
    usable = np.column_stack([values[name].usable for name in names])
    differences = [0.0, *design.mean(usable[:, 1:] - usable[:, :1]).tolist()]
    half_widths = None
    if design.enough:
        half_widths = [0.0, *simultaneous_half_widths(design, usable, first.trips, seed).tolist()]
    effects = []
    for index, name in enumerate(names):
        arm_values, difference = values[name], differences[index]
        mean_trips, auc = (
            float(design.mean(column)) for column in (arm_values.usable, arm_values.auc)
        )
        by_auc = auc - float(design.mean(first.auc))
        half_width = half_widths[index] if half_widths else None
        effects.append(
            Effect(
                arm=name,
                usable_trips=mean_trips,
                half_life=half_life(arm_values.ends, design.mean(arm_values.survival)),
                interval=Bounds.of(arm_values).usable_trips,
                auc=None if math.isnan(auc) else auc,
                difference=difference,
                low=None if half_width is None else difference - half_width,
                high=None if half_width is None else difference + half_width,
                sure=half_width is not None and abs(difference) > max(half_width, TOLERANCE),
                auc_difference=None if math.isnan(by_auc) else by_auc,
            )
        )
    return tuple(effects)


def simultaneous_half_widths(
    design: Design, usable: Floats, trips: int, seed: int = SEED
) -> Floats:
    """Return the half-widths of simultaneous 95 % intervals of all effects.

    `usable` has the usable trips, with one row per case and one column per arm, the baseline first.
    Each arm gets its own pseudo-clusters (evaluation.analysis.covariance), as each model does on a
    board, since an edit may fail in one arm only.
    """
    root = design.covariance_factor(usable, trips)
    differences_to_baseline = root[:, 1:] - root[:, :1]
    errors = errors_of(differences_to_baseline)
    if differences_to_baseline.shape[1] == 1:
        return np.asarray(t_quantile((1 + CONFIDENCE) / 2, design.freedom) * errors)
    scale = np.divide(1, errors, out=np.zeros_like(errors), where=errors > TOLERANCE)
    largest = np.abs(design.draws(differences_to_baseline, DRAWS, seed) * scale).max(axis=1)
    return np.asarray(float(np.quantile(largest, CONFIDENCE)) * errors)


def rank_test(names: Sequence[str], usable: Floats) -> RankTest:
    """Run Friedman's test of arms (columns) within cases (rows), with post-hoc tests."""
    from scipy.stats import friedmanchisquare, rankdata

    # Arms that differ only by floating-point errors must tie.
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
    arm_pairs = list(itertools.combinations(range(len(names)), 2))
    raw = [signed_rank(usable[:, second] - usable[:, first]) for first, second in arm_pairs]
    return tuple(
        Pairwise(
            names[first], names[second], float(np.mean(usable[:, second] - usable[:, first])), p
        )
        for (first, second), p in zip(arm_pairs, holm(raw), strict=True)
    )


def signed_rank(differences: Floats) -> float:
    """Return the p-value of Wilcoxon's signed-rank test with zeros split between both signs.

    The result equals scipy's. For small samples with ties, scipy tries all sign patterns one after
    another, which takes half a second; here it takes a millisecond.
    """
    from scipy.stats import rankdata, wilcoxon

    sizes = np.abs(differences)
    if not sizes.any():
        return 1.0
    untied = sizes.all() and len(np.unique(sizes)) == len(sizes)
    if untied or len(sizes) > MAX_EXACT:
        return float(wilcoxon(differences, zero_method="zsplit").pvalue)
    ranks, greater = rankdata(sizes)[sizes > 0], differences[sizes > 0] > 0
    signs = np.arange(2 ** len(ranks))[:, None] >> np.arange(len(ranks)) & 1
    sums, observed = signs @ ranks, ranks[greater].sum()  # exact: ranks are multiples of 1/2
    return min(1.0, 2 * float(min(np.mean(sums <= observed), np.mean(sums >= observed))))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values of one family, corrected for multiple testing (Holm 1979)."""
    count, corrected, largest = len(p_values), [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
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
    selected = set(cases)
    chains = sum(chain.case in selected for arm_chains in arms.values() for chain in arm_chains)
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
