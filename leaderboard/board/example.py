"""One case in pictures, at the head of the board: what a round trip is, at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard import formatting
from leaderboard.board.row import BoardFilters, BoardRow
from leaderboard.models import Chain, StoredImage, Trip


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


#: The edit and its undoing look right: so much is kept after the first trip.
RIGHT_AT_FIRST = 0.8
#: The loss can be seen: at most so much is kept at the end, a chain that broke aside.
SEEN_AT_LAST = 0.6


def example(rows: Sequence[BoardRow], filters: BoardFilters) -> Example | None:
    """The case that shows most, of the first of these rows that has one; two queries.

    By rule, so that nobody can say it was picked: made and undone well at first, and of those
    the one that has lost most at the end; where there is none, the suite's first case.
    """
    trips, metric = filters.suite.trips, filters.metric
    numbers = sorted({1, max(1, trips // 4), trips})
    chains: dict[int, list[tuple[int, str, int, list[float]]]] = {}
    played = Chain.objects.filter(run__in=[row.run.pk for row in rows], repeat=0)
    for run, pk, category, position, kept in played.values_list(
        "run", "pk", "case__category", "case__position", f"results__{metric}__retention"
    ):
        chains.setdefault(run, []).append((pk, category, position, kept or []))
    chosen = [_telling(chains.get(row.run.pk, []), trips) for row in rows]
    wanted = [
        pk or _first(chains.get(row.run.pk, [])) for row, pk in zip(rows, chosen, strict=True)
    ]
    found: dict[int, list[Trip]] = {}
    for trip in (
        Trip.objects.filter(
            chain__in=[pk for pk in wanted if pk],
            number__in=numbers,
            restored__isnull=False,
            edited__isnull=False,
        )
        .select_related("chain__case__picture__stored", "edited", "restored")
        .order_by("number")
    ):
        found.setdefault(trip.chain_id, []).append(trip)
    # A row with a telling case goes before better rows without.
    for telling in (True, False):
        for row, pk, best in zip(rows, wanted, chosen, strict=True):
            shown = found.get(pk or 0, [])
            whole = shown and shown[0].number == 1 and shown[0].chain.case.picture.stored
            if whole and bool(best) == telling:
                return Example(shown[0].chain, row, _steps(shown, metric))
    return None


def _telling(chains: Sequence[tuple[int, str, int, list[float]]], trips: int) -> int | None:
    """The chain that returns well at first and has lost most at the end; None for none."""
    whole = [(kept[-1], pk) for pk, _, _, kept in chains if len(kept) == trips]
    firsts = {pk: kept[0] for pk, _, _, kept in chains if kept}
    right = [
        (last, pk)
        for last, pk in whole
        if firsts[pk] >= RIGHT_AT_FIRST and 0 <= last <= SEEN_AT_LAST
    ]
    return min(right)[1] if right else None


def _first(chains: Sequence[tuple[int, str, int, list[float]]]) -> int | None:
    """The chain of the suite's first case."""
    return min(chains, key=lambda chain: chain[1:3])[0] if chains else None


def _steps(trips: Sequence[Trip], metric: str) -> list[Step]:
    chain = trips[0].chain
    source, edited = chain.case.picture.stored, trips[0].edited
    steps = [Step(source, "source")] if source else []
    steps += [Step(edited, "edited")] if edited else []
    for trip in trips:
        if trip.restored:
            share = chain.retention_after(metric, trip.number)
            words = "undone" if trip.number == 1 else formatting.after_trips(trip.number)
            steps.append(Step(trip.restored, words, share))
    return steps
