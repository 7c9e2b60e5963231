"""What is public of a run's audits, and of how often its model was tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.db.models import Q

from leaderboard.models import Audit, EditingModel, Run, Suite
from leaderboard.models.runs import RunState


def audits(run: Run) -> list[Audit]:
    """The audits of a finished run with their pictures; before, nobody may know the plan."""
    if run.state != RunState.FINISHED:
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
    host = _host(model)
    rows = ours.filter(editing_model__options__has_key="url") if host else ours.none()
    addresses = rows.values_list("editing_model__options", flat=True)
    return Tries(
        runs=ours.filter(editing_model=model).count(),
        same_address=sum(_host_of(options) == host for options in addresses),
        same_organisation=_of_organisation(ours, model),
    )


def _of_organisation(runs: Any, model: EditingModel) -> int:
    if not model.organisation:
        return 0
    return int(runs.filter(Q(editing_model__organisation__iexact=model.organisation)).count())


def _host(model: EditingModel) -> str:
    return _host_of(model.options)


def _host_of(options: dict[str, Any]) -> str:
    return urlsplit(str(options.get("url") or "")).netloc.lower()
