"""What is public of a run's audits, and of how often its model was tried."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from evaluation.metrics import HEADLINE
from leaderboard.models import Audit, EditingModel, Run, Standing, Suite
from leaderboard.models.runs import RunState


def audits(run: Run) -> list[Audit]:
    """The audits of a finished run with their pictures; before, nobody may know the plan.

    Of a sealed suite only numbers are shown.
    """
    if run.state != RunState.FINISHED or run.suite.sealed:
        return []
    made = Audit.objects.filter(chain__run=run).exclude(outcome=Audit.Outcome.PLANNED)
    return list(made.select_related("chain__case", "sent", "answer"))


@dataclass(frozen=True)
class Tries:
    """How often a model was tried on a suite: the best of many tries looks better than it is."""

    runs: int
    same_address: int
    same_organisation: int


def tries(model: EditingModel, suite: Suite) -> Tries:
    """Runs of the model on the suite, of all models at its address, and of its organisation."""
    ours = Run.objects.filter(suite=suite, source=Run.Source.OURS)
    names = ("editing_model", "editing_model__options", "editing_model__organisation")
    rows = [(pk, _host(options), who.casefold()) for pk, options, who in ours.values_list(*names)]
    host, organisation = next((about for pk, *about in rows if pk == model.pk), ("", ""))
    return Tries(
        runs=sum(pk == model.pk for pk, _, _ in rows),
        same_address=sum(bool(host) and other == host for _, other, _ in rows),
        same_organisation=sum(bool(organisation) and who == organisation for *_, who in rows),
    )


@dataclass(frozen=True)
class OpenAgainstSealed:
    """How much longer pictures last on an open suite than on a sealed one, in shares of N."""

    open: Suite
    sealed: Suite
    difference: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether the open suite is surely easier for this model: it may know its pictures."""
        return self.low > 0


def open_against_sealed(
    runs: Iterable[Run], standings: Mapping[int, Mapping[str, Standing]]
) -> OpenAgainstSealed | None:
    """The difference on the most important suites of both kinds; None where one is lacking.

    The two have no picture in common, so the widths of their intervals add as squares.
    """
    found: dict[bool, tuple[Suite, Standing]] = {}
    for run in runs:
        standing = standings.get(run.pk, {}).get(HEADLINE)
        if run.current and standing and standing.usable_trips_low is not None:
            found.setdefault(run.suite.sealed, (run.suite, standing))
    if len(found) < 2:
        return None
    (open_suite, one), (sealed_suite, other) = found[False], found[True]
    difference = one.usable_trips / open_suite.trips - other.usable_trips / sealed_suite.trips
    width = math.hypot(_half_width(one, open_suite), _half_width(other, sealed_suite))
    return OpenAgainstSealed(
        open_suite, sealed_suite, difference, difference - width, difference + width
    )


def _half_width(standing: Standing, suite: Suite) -> float:
    low, high = standing.usable_trips_low or 0.0, standing.usable_trips_high or 0.0
    return (high - low) / 2 / suite.trips


def _host(options: dict[str, Any]) -> str:
    return urlsplit(str(options.get("url") or "")).netloc.lower()
