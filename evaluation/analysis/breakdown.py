"""Summaries of a run by category, kind and pair, and by case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.analysis.case_values import case_auc
from evaluation.analysis.events import Case, ChainResult, check, events_of
from evaluation.analysis.half_life import Summary, summarise
from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.analysis.survival import Survival


@dataclass(frozen=True)
class CaseSummary:
    """One case: its position in the suite, and its numbers over the repeats."""

    picture: str
    pair: str
    category: str
    kind: str
    usable_trips: float
    auc: float | None


def scopes(chains: Sequence[ChainResult]) -> dict[str, list[ChainResult]]:
    """Group chains by scope: "all", "category:x", "kind:x", "pair:x"."""
    parts: dict[str, list[ChainResult]] = defaultdict(list)
    for chain in chains:
        for scope in chain.case.scopes:
            parts[scope].append(chain)
    return {scope: parts[scope] for scope in sorted(parts)}


def breakdown(
    chains: Sequence[ChainResult], trips: int, level: float = DEFAULT_LEVEL
) -> dict[str, Summary]:
    """Summarise the chains of each scope."""
    return {scope: summarise(part, trips, level) for scope, part in scopes(chains).items()}


def case_summaries(
    chains: Sequence[ChainResult], trips: int, level: float = DEFAULT_LEVEL
) -> list[CaseSummary]:
    """Summarise every case, the worst first: by usable trips, then AUC, then name."""
    return case_summaries_by_level(chains, trips, [level])[level]


def case_summaries_by_level(
    chains: Sequence[ChainResult], trips: int, levels: Sequence[float]
) -> dict[float, list[CaseSummary]]:
    """Summarise every case at each of these levels."""
    cases: dict[Case, list[ChainResult]] = defaultdict(list)
    for chain in chains:
        if chain.played:
            cases[chain.case].append(chain)
    summaries: dict[float, list[CaseSummary]] = {level: [] for level in levels}
    for case, part in cases.items():
        check(part, trips)
        events = [events_of(part, trips, level) for level in levels]
        auc = case_auc(part, trips)
        for level, survival in zip(levels, Survival.by_level(part, events, trips), strict=True):
            usable = float(survival.usable_trips(trips))
            summaries[level].append(CaseSummary(*case, usable, auc))
    return {
        level: sorted(cases_at_level, key=_badness) for level, cases_at_level in summaries.items()
    }


def _badness(case: CaseSummary) -> tuple[float, float, str, str]:
    return case.usable_trips, case.auc or 0.0, case.picture, case.pair
