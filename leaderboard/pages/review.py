"""What is public of a run's audits, and of how often its model was tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

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
    names = ("editing_model", "editing_model__options", "editing_model__organisation")
    rows = [(pk, _host(options), who.casefold()) for pk, options, who in ours.values_list(*names)]
    host, organisation = next((about for pk, *about in rows if pk == model.pk), ("", ""))
    return Tries(
        runs=sum(pk == model.pk for pk, _, _ in rows),
        same_address=sum(bool(host) and other == host for _, other, _ in rows),
        same_organisation=sum(bool(organisation) and who == organisation for *_, who in rows),
    )


def _host(options: dict[str, Any]) -> str:
    return urlsplit(str(options.get("url") or "")).netloc.lower()
