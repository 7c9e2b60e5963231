"""Two chain shapes beside each other: how far apart they are where both should show the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from leaderboard.models import Run


@dataclass(frozen=True)
class Compared:
    """One pair against another, over all pictures; distances are RMSE in levels of 255."""

    pair: str
    against: str
    #: "2 edits made", "all taken back".
    when: str
    pictures: int
    first: float
    last: float
    edits: int


def compared(run: Run, titles: Mapping[str, str]) -> list[Compared]:
    """What the run's `orders` say, summed up; `titles` are those of the pairs by their slugs."""
    groups: dict[tuple[str, str, int], dict[int, list[float]]] = defaultdict(dict)
    pictures: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for row in run.orders:
        key = (row["pair"], row["against"], row["standing"])
        groups[key].setdefault(row["edits"], []).append(255 * row["distance"])
        pictures[key].add(row["picture"])
    return [
        Compared(
            titles.get(pair, pair),
            titles.get(against, against),
            _when(standing),
            len(pictures[pair, against, standing]),
            fmean(by_edits[min(by_edits)]),
            fmean(by_edits[max(by_edits)]),
            max(by_edits),
        )
        for (pair, against, standing), by_edits in groups.items()
    ]


def _when(standing: int) -> str:
    if not standing:
        return "all taken back"
    return "one edit made" if standing == 1 else f"{standing} edits made"
