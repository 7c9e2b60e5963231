"""A run on restorations: what is kept, scene by degradation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from evaluation.content.operators import DEGRADATIONS
from leaderboard.board.breakdowns import shade
from leaderboard.models import Chain
from leaderboard.models.suites import Category


@dataclass(frozen=True)
class Cell:
    """What is kept of one picture after one degradation; None where it was not played."""

    kept: float | None
    case: int | None

    @property
    def shade(self) -> int:
        return 0 if self.kept is None else shade(max(0.0, self.kept), 1.0)


@dataclass(frozen=True)
class Matrix:
    """Scenes down, degradations across, and the mean of each column below."""

    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    means: Sequence[float | None]


def matrix(chains: Sequence[Chain], metric: str) -> Matrix | None:
    """The last return of every chain, mean over repeats; None where these are no restorations."""
    if not chains or any(chain.case.category != Category.RESTORATION for chain in chains):
        return None
    kept: dict[tuple[str, str], list[float]] = defaultdict(list)
    cases: dict[tuple[str, str], int] = {}
    for chain in chains:
        key = chain.case.picture.title, chain.case.pair_slug
        cases[key] = chain.case_id
        if retention := chain.retention(metric):
            kept[key].append(retention[-1])
    order = {f"restore-{name}": one.title for name, one in DEGRADATIONS.items()}
    pairs = {chain.case.pair_slug: chain.case.pair_title for chain in chains}
    slugs = [*(s for s in order if s in pairs), *sorted(s for s in pairs if s not in order)]
    scenes = sorted({scene for scene, _ in cases})

    def cell(scene: str, pair: str) -> Cell:
        found = kept.get((scene, pair))
        return Cell(fmean(found) if found else None, cases.get((scene, pair)))

    rows = [(scene, [cell(scene, slug) for slug in slugs]) for scene in scenes]
    columns = zip(*(cells for _, cells in rows), strict=True)
    means = [_mean([one.kept for one in column if one.kept is not None]) for column in columns]
    return Matrix([order.get(slug, pairs[slug]) for slug in slugs], rows, means)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
