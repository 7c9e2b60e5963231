"""The example at the top of the board: a real case in images, to explain a round trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard import formatting
from leaderboard.board.row import BoardFilters, BoardRow
from leaderboard.models import Chain, StoredImage, Trip


@dataclass(frozen=True)
class Step:
    """An image of the example with its caption and retention."""

    image: StoredImage
    caption: str
    retention: float | None = None


@dataclass(frozen=True)
class Example:
    chain: Chain
    row: BoardRow
    steps: list[Step]

    @property
    def ends(self) -> list[Step]:
        """The source and the last image."""
        return [self.steps[0], self.steps[-1]]


#: A clear example keeps at least this much on the first trip, so that it looks right.
MIN_FIRST_RETENTION = 0.8
#: A clear example keeps at most this much on the last trip, so that the loss is visible, and at
#: least 0: below, the image is broken.
MAX_LAST_RETENTION = 0.6


def example(rows: Sequence[BoardRow], filters: BoardFilters) -> Example | None:
    """Return the clearest example of the first row with a clear example, in two queries.

    A fixed rule prevents cherry-picking. Of the row's chains (a chain is all trips of a case) that
    look right after the first trip, take the chain with the lowest retention at the end. If no row
    has such a chain, take the suite's first case.
    """
    trips, metric = filters.suite.trips, filters.metric
    numbers = sorted({1, max(1, trips // 4), trips})
    chains: dict[int, list[tuple[int, str, int, list[float]]]] = {}
    played = Chain.objects.filter(run__in=[row.run.pk for row in rows], repeat=0)
    for run, pk, category, position, retention in played.values_list(
        "run", "pk", "case__category", "case__position", f"results__{metric}__retention"
    ):
        chains.setdefault(run, []).append((pk, category, position, retention or []))
    clearest = [_clearest(chains.get(row.run.pk, []), trips) for row in rows]
    wanted = [
        pk or _first(chains.get(row.run.pk, [])) for row, pk in zip(rows, clearest, strict=True)
    ]
    trips_of: dict[int, list[Trip]] = {}
    for trip in (
        Trip.objects.filter(
            chain__in=[pk for pk in wanted if pk],
            number__in=numbers,
            restored__isnull=False,
            edited__isnull=False,
        )
        .select_related("chain__case__image__stored", "edited", "restored")
        .order_by("number")
    ):
        trips_of.setdefault(trip.chain_id, []).append(trip)
    # A clear example of a lower row is better than an unclear example of the first row.
    for clear in (True, False):
        for row, pk, best in zip(rows, wanted, clearest, strict=True):
            shown = trips_of.get(pk or 0, [])
            is_complete = shown and shown[0].number == 1 and shown[0].chain.case.image.stored
            if is_complete and bool(best) == clear:
                return Example(shown[0].chain, row, _steps(shown, metric))
    return None


def _clearest(chains: Sequence[tuple[int, str, int, list[float]]], trips: int) -> int | None:
    """Return the chain that looks right at first and loses most by the end, or None."""
    lasts = [(retention[-1], pk) for pk, _, _, retention in chains if len(retention) == trips]
    firsts = {pk: retention[0] for pk, _, _, retention in chains if retention}
    clear = [
        (last, pk)
        for last, pk in lasts
        if firsts[pk] >= MIN_FIRST_RETENTION and 0 <= last <= MAX_LAST_RETENTION
    ]
    return min(clear)[1] if clear else None


def _first(chains: Sequence[tuple[int, str, int, list[float]]]) -> int | None:
    """Return the chain of the suite's first case."""
    return min(chains, key=lambda chain: chain[1:3])[0] if chains else None


def _steps(trips: Sequence[Trip], metric: str) -> list[Step]:
    chain = trips[0].chain
    source, edited = chain.case.image.stored, trips[0].edited
    steps = [Step(source, "source")] if source else []
    steps += [Step(edited, "edited")] if edited else []
    for trip in trips:
        if trip.restored:
            retention = chain.retention_after(metric, trip.number)
            caption = "undone" if trip.number == 1 else formatting.after_trips(trip.number)
            steps.append(Step(trip.restored, caption, retention))
    return steps
