"""One model on the board: what its run and its standing say of it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from leaderboard.board.filters import BoardFilters
from leaderboard.models import EditingModel, Run, Standing


@dataclass(frozen=True)
class BoardRow:
    """One model. `reason` says why it is not ranked; a standing of None was not run."""

    group: str
    run: Run
    model: EditingModel
    standing: Standing | None
    semantic: Standing | None
    filters: BoardFilters
    reason: str = ""

    @property
    def provider(self) -> str:
        """Who serves the model; of local weights, who made them."""
        return provider_of(self.model)

    @property
    def half_life(self) -> float | None:
        """Unreached counts as endless, unmeasured as None."""
        return None if self.standing is None else endless(self.standing.half_life)

    @property
    def semantic_half_life(self) -> float | None:
        return None if self.semantic is None else endless(self.semantic.half_life)

    @property
    def usable_trips(self) -> float | None:
        return None if self.standing is None else self.standing.usable_trips

    @property
    def auc(self) -> float | None:
        return None if self.standing is None else self.standing.auc

    @property
    def change_seen(self) -> float | None:
        """The share of judged trips on which the change was seen."""
        return None if self.standing is None else self.standing.counts.get("change_seen")

    @property
    def refusals(self) -> float | None:
        """The share of chains that the model refused; None where nobody wrote it down."""
        if self.standing is None or not self.standing.counts.get("chains"):
            return None
        if self.run.source == Run.Source.PUBLISHED:
            return None
        counts: dict[str, int] = self.standing.counts
        return counts.get("refused", 0) / counts["chains"]

    @property
    def price(self) -> float | None:
        """USD per edit: as paid in this run, else as listed."""
        return price_of(self.run)

    @property
    def usd_per_usable_trip(self) -> float | None:
        """What a trip costs that the picture survives; the trip that fails is paid too."""
        usable, price, suite = self.usable_trips, self.price, self.filters.suite
        if price is None or not usable:
            return None
        return suite.edits_per_trip * price * min(usable + 1, suite.trips) / usable

    @property
    def seconds(self) -> float | None:
        return self.run.seconds_per_edit

    @property
    def date(self) -> datetime.datetime | None:
        return self.run.finished_at or self.run.started_at

    @property
    def added(self) -> datetime.datetime | None:
        """When the model came onto this board: its first run on the suite ended then."""
        return self.run.added_at or self.run.finished_at


class Served(Protocol):
    """A model, whole or in short, with whoever made and serves it."""

    @property
    def provider(self) -> str: ...
    @property
    def organisation(self) -> str: ...
    @property
    def access(self) -> str: ...


def provider_of(model: Served) -> str:
    """Who serves the model; of local weights, who made them."""
    if model.access == EditingModel.Access.LOCAL:
        return model.organisation or model.provider
    return model.provider or model.organisation


def price_of(run: Run) -> float | None:
    """USD per edit: as paid in this run, else as listed."""
    paid, listed = run.usd_per_edit, run.editing_model.price_per_edit
    return paid if paid is not None else None if listed is None else float(listed)


def semantic_of(rows: Iterable[BoardRow]) -> str | None:
    """The metric of the semantic column; None when no row has one."""
    return next((row.semantic.metric.name for row in rows if row.semantic), None)


def board_order(row: Any) -> tuple[float, float]:
    """The board's own order: usable trips, then what is kept on average."""
    return -(row.usable_trips or 0), -(row.auc or 0)


def endless(half_life: float | None) -> float:
    """A half-life to sort by: what was not reached is longer than all that was."""
    return math.inf if half_life is None else half_life
