"""What is public of a run's audits, and of how often its model was tried."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from evaluation.metrics import HEADLINE
from leaderboard.endpoints import host_of
from leaderboard.models import Audit, EditingModel, Run, Standing, Submission, Suite
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
class Tried:
    """How often: this model, all at its address, all of its organisation."""

    model: int
    address: int
    organisation: int

    @classmethod
    def count(cls, rows: Iterable[tuple[bool, str, str]], host: str, organisation: str) -> Self:
        """Of rows that say whether it was this model, at which host and whose."""
        rows = list(rows)
        return cls(
            model=sum(own for own, _, _ in rows),
            address=sum(bool(host) and other == host for _, other, _ in rows),
            organisation=sum(bool(organisation) and who == organisation for *_, who in rows),
        )


@dataclass(frozen=True)
class Tries:
    """How often a model was tried on a suite: the best of many tries looks better than it is."""

    runs: Tried
    submissions: Tried


def tries(model: EditingModel, suite: Suite) -> Tries:
    """Runs on the suite, and submissions for it, whatever became of them."""
    ours = Run.objects.as_the_suite_says().filter(suite=suite, source=Run.Source.OURS)
    names = ("editing_model", "editing_model__options__url", "editing_model__organisation")
    runs = [
        (pk == model.pk, host_of(url or ""), who.casefold())
        for pk, url, who in ours.values_list(*names)
    ]
    host, who = next((about for own, *about in runs if own), ("", ""))
    submitted = Submission.objects.none()
    if host:  # models of providers are submitted by nobody
        submitted = Submission.objects.filter(suite=suite)
    named = model.name.casefold()
    submissions = [
        (pk == model.pk or name.casefold() == named, host_of(url or ""), organisation.casefold())
        for pk, name, url, organisation in submitted.values_list(
            "editing_model", "name", "endpoint_url", "organisation"
        )
    ]
    return Tries(Tried.count(runs, host, who), Tried.count(submissions, host, who))


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
