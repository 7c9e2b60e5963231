"""Estimate the cost and the time of a run before it begins."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Assumed seconds per edit if none were measured.
USUAL_SECONDS = 10.0


@dataclass(frozen=True)
class Estimate:
    """The estimate for a run; `usd` is None if the price is unknown, `seconds` is wall time.

    With `stop_after` the estimate is an upper bound: a chain stops this many trips after its result
    is known.
    """

    edits: int
    usd: float | None
    seconds: float
    stop_after: int = 0

    @property
    def hours(self) -> float:
        return self.seconds / 3600

    def __str__(self) -> str:
        money = "price not known" if self.usd is None else f"about ${self.usd:,.2f}"
        summary = f"{self.edits:,} edits, {money}, about {duration(self.seconds)}"
        if not self.stop_after:
            return summary
        return f"at most {summary}: chains stop {self.stop_after} trips after their result is known"


def estimate(
    edits: int,
    price: float | None = None,
    seconds_per_edit: float | None = None,
    in_flight: int = 1,
    *,
    calls_per_minute: int | None = None,
    chains: int | None = None,
    stop_after: int = 0,
) -> Estimate:
    """Estimate the cost and time of `edits` edits.

    The edits of a chain are made one after another, so at most `chains` are in flight; the
    provider's `calls_per_minute` is a further limit.
    """
    if edits < 0 or in_flight < 1 or (price is not None and price < 0):
        raise ValueError("edits and price must not be negative, and in_flight must be at least 1")
    per_edit = USUAL_SECONDS if seconds_per_edit is None else seconds_per_edit
    at_once = max(1, min(in_flight, edits, chains or in_flight))
    if chains:  # each slot plays whole chains, one after another
        seconds = math.ceil(chains / at_once) * (edits / chains) * per_edit
    else:
        seconds = math.ceil(edits / at_once) * per_edit
    if calls_per_minute:
        seconds = max(seconds, edits * 60 / calls_per_minute)
    return Estimate(edits, None if price is None else edits * price, seconds, stop_after)


def duration(seconds: float) -> str:
    """Format wall time in its two largest units: "45 s", "12 min", "5 h 36 min"."""
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
