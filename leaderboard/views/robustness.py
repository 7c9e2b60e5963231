"""The robustness page: how the board's order changes under other choices.

A choice is a metric, a threshold, a number of trips, or a part of the cases to leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluation.analysis import thresholds
from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.content.suites import find_suite, ticks
from leaderboard import formatting
from leaderboard.board.breakdowns import pair_titles
from leaderboard.board.rows import played_suites, stamp
from leaderboard.models import Suite, SuiteReport
from leaderboard.models.suites import Category, Kind, Origin
from leaderboard.page_cache import cached_page, uncached
from leaderboard.views.site import noindex_variants

#: Titles of the kinds of choices, in the order of the page.
TITLES = {
    "metric": "With another metric",
    "threshold": "With another threshold",
    "trips": "With fewer round trips",
    "category": "Without one category",
    "kind": "Without one kind of image",
    "origin": "Without one origin of images",
    "pair": "Without one edit pair",
}
#: Two orders count as nearly the same from this Kendall's tau on (1: the same, -1: reversed).
CLOSE = 0.9


@require_safe
@cached_page(stamp, ("suite",))
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    offered = played_suites()
    name = request.GET.get("suite", "")
    suite = find_suite(name, offered) or next(iter(offered), None)
    context: dict[str, Any] = {"suite": suite, "suites": offered}
    if suite:
        report = SuiteReport.objects.filter(suite=suite, method_version=METHOD_VERSION).first()
        robustness = report.robustness if report else {}
        groups = _groups(robustness, suite)
        context |= {"report": robustness, "groups": groups, "finding": _finding(groups)}
    response = render(request, "leaderboard/robustness.html", context)
    return uncached(response) if name and (not suite or suite.key != name) else response


@dataclass(frozen=True)
class Agreement:
    """A choice other than the board's, and Kendall's tau between the orders under both choices."""

    choice: str
    tau: float | None

    @property
    def shown(self) -> str:
        return "–" if self.tau is None else f"{self.tau:.2f}".replace("-", "−")

    @property
    def position(self) -> float:
        """Position of tau on a scale from 0 (-1) to 100 (1)."""
        return 50 * (1 + (self.tau or 0))


def _groups(report: Mapping[str, Any], suite: Suite) -> dict[str, list[Agreement]]:
    """Return the agreements of each kind of choice, by the title of the kind."""
    pairs = pair_titles(suite.pk)
    groups: dict[str, list[Agreement]] = {}
    shown_trips = {str(number) for number in ticks(suite.trips)}
    for about, title in TITLES.items():
        rows = [row for row in report.get("agreements", ()) if row["about"] == about]
        groups[title] = [
            Agreement(_choice_label(about, row["choice"], pairs), row["tau"])
            for row in rows
            if about != "trips" or row["choice"] in shown_trips
        ]
    return {title: lines for title, lines in groups.items() if lines}


def _finding(groups: Mapping[str, Sequence[Agreement]]) -> str:
    """Return the page's finding in one sentence."""
    taus = [
        (line.tau, title, line.choice)
        for title, lines in groups.items()
        for line in lines
        if line.tau is not None
    ]
    if not taus:
        return "There are too few results to tell how robust the order is"
    tau, title, choice = min(taus)
    if tau >= CLOSE:
        return "The order stays nearly the same under every other choice"
    return f"The order changes most {title.lower()}: {choice}"


def _choice_label(about: str, choice: str, pairs: Mapping[str, str]) -> str:
    if about == "metric":
        return formatting.metric_label(choice)
    if about == "threshold":
        return f"until {thresholds.named(float(choice))}"
    if about == "trips":
        return formatting.count(int(choice), "round trip")
    if about == "category":
        return str(dict(Category.choices).get(choice, choice))
    if about == "kind":
        return str(dict(Kind.choices).get(choice, choice))
    if about == "origin":
        return str(dict(Origin.choices).get(choice, choice))
    return pairs.get(choice, choice)
