"""What an address asks of the board."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.metrics import HEADLINE
from leaderboard.models import Suite


@dataclass(frozen=True)
class BoardFilters:
    """The suite and the metric shown, and for which cases and models.

    `weights` is "", "open" or "closed", `access` one of `EditingModel.Access`; `price` is the
    most an edit may cost in USD; `sort` the name of a column, reversed after a "-".
    """

    suite: Suite
    metric: str = HEADLINE
    level: float = DEFAULT_LEVEL
    scope: str = "all"
    search: str = ""
    provider: str = ""
    weights: str = ""
    access: str = ""
    price: float | None = None
    since: datetime.date | None = None
    sort: str = "half_life"
    #: Every model, not only the first page of them.
    every: bool = False

    def query(self, **changes: Any) -> str:
        """The address's query with some things changed; what is default is left out."""
        other = replace(self, **changes)
        values = {
            "suite": other.suite.key,
            "metric": other.metric,
            "level": f"{other.level:g}",
            "cases": other.scope,
            "q": other.search,
            "provider": other.provider,
            "weights": other.weights,
            "access": other.access,
            "price": "" if other.price is None else f"{other.price:g}",
            "since": other.since.isoformat() if other.since else "",
            "sort": other.sort,
            "every": "1" if other.every else "",
        }
        plain = {"level": f"{DEFAULT_LEVEL:g}", "cases": "all", "sort": "half_life"}
        return urlencode({k: v for k, v in values.items() if v and v != plain.get(k)}, safe=":")

    def everybody(self) -> BoardFilters:
        """The same board without a choice of models."""
        return replace(self, **NO_CHOICE)

    @property
    def chooses_models(self) -> bool:
        return self != self.everybody()


#: What each of these says when it leaves no model out.
NO_CHOICE: dict[str, Any] = {
    "search": "",
    "provider": "",
    "weights": "",
    "access": "",
    "price": None,
    "since": None,
}
