"""One case in pictures, at the head of the board: what a round trip is, at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard import formatting
from leaderboard.board.columns import BoardRow
from leaderboard.board.filters import BoardFilters
from leaderboard.models import Case, Chain, StoredImage, Trip


@dataclass(frozen=True)
class Step:
    """A picture of the example and what it is."""

    picture: StoredImage
    words: str
    kept: float | None = None


@dataclass(frozen=True)
class Example:
    chain: Chain
    row: BoardRow
    steps: list[Step]


def example(rows: Sequence[BoardRow], filters: BoardFilters) -> Example | None:
    """The suite's first case as the best of these rows returned it; one query.

    Always the same case, so that nobody can say it was picked.
    """
    numbers = sorted({1, max(1, filters.suite.trips // 4), filters.suite.trips})
    first = Case.objects.filter(suite=filters.suite).order_by("category", "position").values("pk")
    trips = Trip.objects.filter(
        chain__run__in=[row.run.pk for row in rows],
        chain__case=first[:1],
        chain__repeat=0,
        number__in=numbers,
        restored__isnull=False,
        edited__isnull=False,
    ).select_related("chain__case__picture__stored", "edited", "restored")
    by_run: dict[int, list[Trip]] = {}
    for trip in trips.order_by("number"):
        by_run.setdefault(trip.chain.run_id, []).append(trip)
    for row in rows:
        found = by_run.get(row.run.pk, [])
        if found and found[0].number == 1 and found[0].chain.case.picture.stored:
            return Example(found[0].chain, row, _steps(found, filters.metric))
    return None


def _steps(trips: Sequence[Trip], metric: str) -> list[Step]:
    chain = trips[0].chain
    kept = chain.results.get(metric, {}).get("retention", [])
    source, edited = chain.case.picture.stored, trips[0].edited
    steps = [Step(source, "source")] if source else []
    steps += [Step(edited, "edited")] if edited else []
    for trip in trips:
        if trip.restored:
            share = kept[trip.number - 1] if trip.number <= len(kept) else None
            words = "undone" if trip.number == 1 else formatting.after_trips(trip.number)
            steps.append(Step(trip.restored, words, share))
    return steps
