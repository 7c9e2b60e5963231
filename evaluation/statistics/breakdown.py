"""A run's summary in parts: by category, kind, pair, and case by case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.statistics.events import Case, ChainResult
from evaluation.statistics.half_life import Summary, summarise
from evaluation.statistics.levels import DEFAULT_LEVEL


@dataclass(frozen=True)
class CaseSummary:
    """One case: its place in the suite, and its summary over the repeats."""

    picture: str
    pair: str
    category: str
    kind: str
    summary: Summary


def scopes(chains: Sequence[ChainResult]) -> dict[str, list[ChainResult]]:
    """Chains by scope: "all", "category:x", "kind:x", "pair:x"."""
    parts: dict[str, list[ChainResult]] = defaultdict(list)
    for chain in chains:
        for scope in chain.case.scopes:
            parts[scope].append(chain)
    return {scope: parts[scope] for scope in sorted(parts)}


def breakdown(
    chains: Sequence[ChainResult], trips: int, level: float = DEFAULT_LEVEL
) -> dict[str, Summary]:
    """A summary per scope."""
    return {scope: summarise(part, trips, level) for scope, part in scopes(chains).items()}


def case_summaries(
    chains: Sequence[ChainResult], trips: int, level: float = DEFAULT_LEVEL
) -> list[CaseSummary]:
    """Every case, the worst first: by usable trips, then AUC, then name."""
    cases: dict[Case, list[ChainResult]] = defaultdict(list)
    for chain in chains:
        if chain.played:
            cases[chain.case].append(chain)
    found = [CaseSummary(*case, summarise(part, trips, level)) for case, part in cases.items()]
    return sorted(found, key=_badness)


def _badness(case: CaseSummary) -> tuple[float, float, str, str]:
    numbers = case.summary
    return numbers.usable_trips or 0.0, numbers.auc or 0.0, case.picture, case.pair
