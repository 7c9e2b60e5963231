"""What a picture that lasts costs, in money and in time, and which models nobody beats at that."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from leaderboard import formatting
from leaderboard.board.row import BoardRow, board_order


@dataclass(frozen=True)
class Cost:
    """One way to count what a model costs; less is better."""

    name: str
    label: str
    axis: str
    value: Callable[[BoardRow], float | None]
    text: Callable[[float | None], str]

    @property
    def is_time(self) -> bool:
        return self.text is formatting.seconds


COSTS = {
    cost.name: cost
    for cost in (
        Cost("edit", "Price per edit", "USD per edit", lambda row: row.price, formatting.usd),
        Cost(
            "usable",
            "Price per usable trip",
            "USD per usable trip",
            lambda row: row.usd_per_usable_trip,
            formatting.usd,
        ),
        Cost(
            "median",
            "Time per edit, median",
            "seconds per edit, median",
            lambda row: row.run.progress.median_seconds,
            formatting.seconds,
        ),
        Cost(
            "p95",
            "Time per edit, 95 % of edits",
            "seconds per edit, 95 % of edits",
            lambda row: row.run.progress.p95_seconds,
            formatting.seconds,
        ),
    )
}


@dataclass(frozen=True)
class Point:
    """A model with what it costs; `best` where no other lasts as long for less."""

    row: BoardRow
    cost: float
    best: bool

    @property
    def name(self) -> str:
        return self.row.model.name

    @property
    def height(self) -> float:
        """Its half-life as a chart can show it: what was not reached is at the suite's end."""
        life = self.row.half_life or 0.0
        return min(life, self.row.filters.suite.trips) if math.isfinite(life) else self._end

    @property
    def _end(self) -> float:
        return float(self.row.filters.suite.trips)


def points(rows: Iterable[BoardRow], cost: Cost) -> list[Point]:
    """The rows whose cost is known, the cheapest first, those that nobody beats marked."""
    known = [
        (value, row) for row in rows if row.standing and (value := cost.value(row)) is not None
    ]
    known.sort(key=lambda one: (one[0], board_order(one[1])))
    found, most = [], -math.inf
    for value, row in known:
        usable = row.usable_trips or 0.0
        found.append(Point(row, value, best=usable > most))
        most = max(most, usable)
    return found


def same_weights(points: Sequence[Point]) -> list[list[Point]]:
    """The groups of models that have the same weights, at two hosts or more."""
    groups: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for point in points:
        groups[point.row.model.weights_name].append(point)
    return [group for group in groups.values() if len(group) > 1]


def finding(points: Sequence[Point], cost: Cost) -> str:
    """Who gives most for what it costs, in one sentence."""
    best = [point.name for point in points if point.best]
    if not best:
        return "What does a picture that lasts cost?"
    if len(best) == 1:
        return f"{best[0]} lasts longest and {'takes' if cost.is_time else 'costs'} least"
    less = "in less time" if cost.is_time else "for less"
    return f"No model lasts longer {less} than {formatting.listed(best[::-1], 4)}"
