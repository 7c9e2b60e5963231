"""How a run's chains end: the share ended by each cause, trip by trip, and its pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluation.analysis.events import CAUSES, CROSSINGS
from evaluation.content.suites import ticks
from leaderboard import formatting
from leaderboard.models import Case, Standing, StoredImage, Trip
from leaderboard.pages.charts import Chart, Figure, Table, axis_numbers, layout, rounded


@dataclass(frozen=True)
class Ending:
    """One chain where it ended: its source, and what came back then (None: nothing did)."""

    case: Case
    number: int
    trip: Trip | None

    @property
    def picture(self) -> StoredImage | None:
        """The last picture there is of that trip."""
        return (self.trip.restored or self.trip.edited) if self.trip else None

    @property
    def words(self) -> str:
        return f"{self.case.pair_title}, trip {self.number}"

    @property
    def place(self) -> Sequence[float]:
        """x, y, width and height of the worst place as shares; empty where it was not that."""
        found = self.trip.worst_place if self.trip else None
        if not found:
            return ()
        left, top, right, bottom = found[:4]
        return left, top, right - left, bottom - top


@dataclass(frozen=True)
class Cause:
    """What ended some of the chains, how many, and a few of them."""

    name: str
    count: int
    share: float
    endings: Sequence[Ending]

    @property
    def words(self) -> str:
        return CAUSES[self.name]


#: The share of chains from which on a cause is part of how long a model lasts.
TELLING = 0.2


def telling(standing: Standing) -> str:
    """What ended many chains other than wear, in words: "the edit was not made in 6 of 18 chains"; else empty."""
    chains, counts = standing.counts.get("chains") or 0, standing.counts.get("causes") or {}
    ends = {name: counts.get(name, 0) for name in CAUSES if name not in CROSSINGS}
    most = max(ends, key=lambda name: ends[name])
    if not chains or ends[most] < TELLING * chains:
        return ""
    return f"{CAUSES[most]} in {ends[most]} of {formatting.count(chains, 'chain')}"


def wanted(standing: Standing) -> list[tuple[int, int]]:
    """The case and the trip of every ending that the page shows."""
    return [(row["case"], row["trip"]) for rows in _kept(standing).values() for row in rows]


def _kept(standing: Standing) -> Mapping[str, Sequence[Mapping[str, int]]]:
    found: Mapping[str, Sequence[Mapping[str, int]]] = standing.details.get("endings") or {}
    return found


def causes(
    standing: Standing, cases: Mapping[int, Case], trips: Mapping[tuple[int, int], Trip]
) -> list[Cause]:
    """What ended the run's chains, the most frequent first, each with the first ones it ended."""
    counts, known = standing.counts.get("causes") or {}, _kept(standing)
    found = [
        Cause(
            name,
            counts[name],
            counts[name] / standing.counts["chains"],
            [
                Ending(cases[row["case"]], row["trip"], trips.get((row["case"], row["trip"])))
                for row in known.get(name, ())
                if row["case"] in cases
            ],
        )
        for name in CAUSES
        if counts.get(name)
    ]
    return sorted(found, key=lambda cause: -cause.count)


def chart(standing: Standing, trips: int) -> Chart | None:
    """The share of cases ended by each cause up to each trip; None where nothing ended."""
    incidence: dict[str, Sequence[float | None]] = {
        name: shares for name in CAUSES if any(shares := standing.incidence.get(name) or ())
    }
    if not incidence:
        return None
    return Chart(
        id="endings",
        title=_finding(incidence, trips),
        subtitle="Share of the cases that each cause has ended, up to each round trip; what is "
        "above all of them is still usable.",
        figure=_figure(incidence, trips),
        table=_table(incidence, trips),
    )


def _finding(incidence: Mapping[str, Sequence[float | None]], trips: int) -> str:
    ended = {name: shares[-1] or 0.0 for name, shares in incidence.items()}
    most = max(ended, key=lambda name: ended[name])
    share = formatting.percent(min(1.0, sum(ended.values())))
    return (
        f"{share} of the cases end within {formatting.count(trips, 'round trip')}, "
        f"most often because {CAUSES[most]}"
    )


def _figure(incidence: Mapping[str, Sequence[float | None]], trips: int) -> Figure:
    places = {name: place for place, name in enumerate(CAUSES)}
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": CAUSES[name],
            "legendgroup": name,
            "stackgroup": "ended",
            "y": rounded(shares),
            "hovertemplate": "<b>%{fullData.name}</b><br>%{y:.0%} after %{x}<extra></extra>",
            "line": {"color": f"var({_colour(places[name])})", "width": 1.5},
            "fillcolor": f"var({_colour(places[name])} / 0.45)",
        }
        for name, shares in incidence.items()
    ]
    return {
        "data": traces,
        "layout": layout(
            xaxis={
                "title": {"text": "round trips"},
                "tickvals": axis_numbers(trips),
                "range": [0, trips],
            },
            yaxis={
                "title": {"text": "cases ended"},
                "tickformat": ".0%",
                "range": [0, 1],
            },
        ),
    }


def _colour(place: int) -> str:
    return f"--series-{place % 8 + 1}"


def _table(incidence: Mapping[str, Sequence[float | None]], trips: int) -> Table:
    numbers = ticks(trips)
    rows = [
        [CAUSES[name], *(formatting.percent(shares[number]) for number in numbers)]
        for name, shares in incidence.items()
    ]
    return Table(["Ended because", *(formatting.after(number) for number in numbers)], rows)
