"""Summaries of a run's chains: of the whole suite, of its parts (scopes) and of each case.

A summary has usable trips, half-life, AUC, the mean curve and the causes that ended chains.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.analysis.case_values import CaseValues, case_auc, values_by_threshold
from evaluation.analysis.events import (
    CAUSES,
    COMPLETED,
    CONVERGED,
    OUTCOMES,
    Case,
    ChainResult,
    check_chains,
    events_of,
)
from evaluation.analysis.survival import Floats, Survival
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD

METHOD_VERSION = "3"


@dataclass(frozen=True)
class Summary:
    """Summary of a set of chains at one threshold, without NaN or infinity.

    `usable_trips` is None if nothing was measured. `half_life` is the time in trips by which half
    of the cases have ended: 0 if half ended before an image was restored, None if more than half
    last for all `trips` ("> N"). If chains were stopped because their result was known, `auc` is
    None, and `curve` is None from the first trip that one of these chains did not play.

    Lists have one value for each n = 0..N. `curve` is the mean retention, `survival` the share of
    cases still usable, `usable_by_trip` the usable trips within the first n trips. `incidence` is
    the share of cases ended by each cause; all causes and `survival` sum to 1.

    `causes` counts chains by the cause of their end, `outcomes` by their outcome within `trips`.
    `reframed`, `recovered` and `change_not_seen` count chains with at least one such trip.
    `change_seen` is the share of judged trips in which the change was seen; `edits_made` and
    `edits_undone` are the shares in which witnesses (automatic checks) confirmed the edit and its
    inverse.
    """

    trips: int
    threshold: float
    cases: int
    chains: int
    usable_trips: float | None
    half_life: float | None
    auc: float | None
    curve: tuple[float | None, ...]
    survival: tuple[float | None, ...]
    usable_by_trip: tuple[float | None, ...]
    incidence: dict[str, tuple[float | None, ...]]
    causes: dict[str, int]
    outcomes: dict[str, int]
    censored: int
    reframed: int
    recovered: int
    change_not_seen: int
    change_seen: float | None
    edits_made: float | None = None
    edits_undone: float | None = None


def shown_half_life(half_life: float | None, trips: int) -> str:
    """Return the half-life as displayed: "7.3", or "> 20" if longer than a suite of 20 trips."""
    return f"> {trips}" if half_life is None else f"{half_life:.1f}"


def summarise(
    chains: Sequence[ChainResult], trips: int, threshold: float = DEFAULT_THRESHOLD
) -> Summary:
    """Return usable trips, half-life, AUC, mean curve, causes and counts of chains."""
    return summary_and_values(chains, trips, threshold)[0]


def summary_and_values(
    chains: Sequence[ChainResult], trips: int, threshold: float = DEFAULT_THRESHOLD
) -> tuple[Summary, CaseValues]:
    """Return the summary of these chains and the values of their cases."""
    return summaries_and_values(chains, trips, [threshold])[0]


def summaries_and_values(
    chains: Sequence[ChainResult], trips: int, thresholds: Sequence[float]
) -> list[tuple[Summary, CaseValues]]:
    """Summarise at each threshold; numbers that do not depend on the threshold are shared."""
    check_chains(chains, trips)
    events = [events_of(chains, trips, threshold) for threshold in thresholds]
    indices = [index for index, chain in enumerate(chains) if chain.played]
    played = [chains[index] for index in indices]
    played_events = [[ends[index] for index in indices] for ends in events]
    values = values_by_threshold(played, played_events, trips)
    survivals = Survival.by_threshold(played, played_events, trips)
    counts = _counts(chains, trips)
    numbers = np.arange(trips + 1.0)

    def finite(values: Floats) -> tuple[float | None, ...]:
        if not played:
            return (None,) * len(values)
        return tuple(value if math.isfinite(value) else None for value in values.tolist())

    none_ended = finite(np.zeros(trips + 1))
    results = []
    for threshold, ends, threshold_values, survival in zip(
        thresholds, events, values, survivals, strict=True
    ):
        causes = Counter(end.cause for end in ends)
        usable = finite(survival.usable_trips(numbers))
        summary = Summary(
            trips=trips,
            threshold=threshold,
            usable_trips=usable[-1],
            half_life=survival.half_life if played else None,
            auc=finite(np.atleast_1d(threshold_values.design.mean(threshold_values.auc)))[0],
            curve=finite(threshold_values.design.mean(threshold_values.curve)),
            survival=finite(survival.at(numbers)),
            usable_by_trip=usable,
            incidence=dict.fromkeys(CAUSES, none_ended)
            | {cause: finite(by) for cause, by in survival.incidence(numbers).items()},
            causes={cause: causes[cause] for cause in CAUSES},
            censored=causes[None],
            recovered=sum(end.recovered for end in ends),
            **counts,
        )
        results.append((summary, threshold_values))
    return results


def _counts(chains: Sequence[ChainResult], trips: int) -> dict[str, Any]:
    """Return the counts and shares of a summary that do not depend on the threshold."""
    ends = Counter(
        c.outcome if len(c.retention) < trips or c.outcome == CONVERGED else COMPLETED
        for c in chains
    )

    def share(flags: Iterable[Sequence[bool | None]]) -> float | None:
        judged = [flag for chain_flags in flags for flag in chain_flags[:trips] if flag is not None]
        return sum(judged) / len(judged) if judged else None

    return {
        "cases": len({chain.case for chain in chains}),
        "chains": len(chains),
        "outcomes": {outcome: ends[outcome] for outcome in OUTCOMES},
        "reframed": sum(any(chain.reframed[:trips]) for chain in chains),
        "change_not_seen": sum(False in chain.change_seen[:trips] for chain in chains),
        "change_seen": share(chain.change_seen for chain in chains),
        "edits_made": share(chain.edits_made for chain in chains),
        "edits_undone": share(chain.edits_undone for chain in chains),
    }


# By part of a suite.


@dataclass(frozen=True)
class CaseSummary:
    """One case with its attributes and its results, which are means over the repeats."""

    image: str
    pair: str
    category: str
    kind: str
    origin: str
    usable_trips: float
    auc: float | None


def scopes(chains: Sequence[ChainResult]) -> dict[str, list[ChainResult]]:
    """Group chains by scope: "all", "category:x", "kind:x", "origin:x", "pair:x"."""
    parts: dict[str, list[ChainResult]] = defaultdict(list)
    for chain in chains:
        for scope in chain.case.scopes:
            parts[scope].append(chain)
    return {scope: parts[scope] for scope in sorted(parts)}


def breakdown(
    chains: Sequence[ChainResult], trips: int, threshold: float = DEFAULT_THRESHOLD
) -> dict[str, Summary]:
    """Summarise the chains of each scope."""
    return {scope: summarise(part, trips, threshold) for scope, part in scopes(chains).items()}


def case_summaries(
    chains: Sequence[ChainResult], trips: int, threshold: float = DEFAULT_THRESHOLD
) -> list[CaseSummary]:
    """Summarise every case, the worst first: by usable trips, then AUC, then name."""
    return case_summaries_by_threshold(chains, trips, [threshold])[threshold]


def case_summaries_by_threshold(
    chains: Sequence[ChainResult], trips: int, thresholds: Sequence[float]
) -> dict[float, list[CaseSummary]]:
    """Summarise every case at each threshold, the worst first."""
    cases: dict[Case, list[ChainResult]] = defaultdict(list)
    for chain in chains:
        if chain.played:
            cases[chain.case].append(chain)
    summaries: dict[float, list[CaseSummary]] = {threshold: [] for threshold in thresholds}
    for case, part in cases.items():
        check_chains(part, trips)
        events = [events_of(part, trips, threshold) for threshold in thresholds]
        auc = case_auc(part, trips)
        for threshold, survival in zip(
            thresholds, Survival.by_threshold(part, events, trips), strict=True
        ):
            usable = float(survival.usable_trips(trips))
            summaries[threshold].append(CaseSummary(*case, usable, auc))
    return {
        threshold: sorted(cases_at_threshold, key=_worst_first)
        for threshold, cases_at_threshold in summaries.items()
    }


def _worst_first(case: CaseSummary) -> tuple[float, float, str, str]:
    return case.usable_trips, case.auc or 0.0, case.image, case.pair
