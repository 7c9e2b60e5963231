"""What an address asks of the board."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from leaderboard.models import Suite


@dataclass(frozen=True)
class BoardFilters:
    """The suite and the metric shown, and for which cases and models.

    `weights` is "", "open" or "closed"; `sort` the name of a column, reversed after a "-".
    """

    suite: Suite
    metric: str = "picture"
    level: float = 0.5
    scope: str = "all"
    weights: str = ""
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
            "weights": other.weights,
            "sort": other.sort,
            "every": "1" if other.every else "",
        }
        plain = {"level": "0.5", "cases": "all", "sort": "half_life"}
        return urlencode({k: v for k, v in values.items() if v and v != plain.get(k)}, safe=":")
