"""The robustness page: would another choice of ours have given another order?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.analysis import levels
from evaluation.content.suites import ticks
from leaderboard import formatting
from leaderboard.models import Suite
from leaderboard.models.suites import Category, Kind

#: What each choice is about, in the order of the page.
TITLES = {
    "metric": "By another metric",
    "level": "By another level",
    "trips": "With fewer round trips",
    "category": "Without one category",
    "kind": "Without one kind of picture",
    "pair": "Without one edit pair",
}
#: From here on an order is all but the same.
CLOSE = 0.9


@dataclass(frozen=True)
class Line:
    """One other choice, and how far its order agrees: 1 is the same, -1 the reverse."""

    choice: str
    tau: float | None

    @property
    def shown(self) -> str:
        return "–" if self.tau is None else f"{self.tau:.2f}".replace("-", "−")

    @property
    def position(self) -> float:
        """Where tau lies between -1 and 1, from 0 to 100."""
        return 50 * (1 + (self.tau or 0))


@dataclass(frozen=True)
class Group:
    title: str
    lines: Sequence[Line]


def groups(report: Mapping[str, Any], suite: Suite, pairs: Mapping[str, str]) -> list[Group]:
    """Every other order beside the board's own, by what was chosen otherwise."""
    found: dict[str, list[Line]] = {about: [] for about in TITLES}
    numbers = {str(number) for number in ticks(suite.trips)}
    for row in report.get("agreements", ()):
        about, choice = row["about"], row["choice"]
        if about == "trips" and choice not in numbers:
            continue
        if about in found:
            found[about].append(Line(_words(about, choice, pairs), row["tau"]))
    return [Group(TITLES[about], lines) for about, lines in found.items() if lines]


def finding(groups: Sequence[Group]) -> str:
    """The page in one sentence."""
    known = [
        (line.tau, group.title, line.choice)
        for group in groups
        for line in group.lines
        if line.tau is not None
    ]
    if not known:
        return "Too few results to say how robust the order is"
    tau, title, choice = min(known)
    if tau >= CLOSE:
        return "The order stays all but the same, whatever we choose"
    return f"The order depends most on one choice: {title.lower()}, {choice}"


def _words(about: str, choice: str, pairs: Mapping[str, str]) -> str:
    if about == "metric":
        return formatting.metric_label(choice)
    if about == "level":
        return f"until {levels.is_lost(float(choice))}"
    if about == "trips":
        return formatting.count(int(choice), "round trip")
    if about == "category":
        return str(dict(Category.choices).get(choice, choice))
    if about == "kind":
        return str(dict(Kind.choices).get(choice, choice))
    return pairs.get(choice, choice)
