"""Models that can be played here now: their provider's key or their weights are present."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from django.db.models import QuerySet

from evaluation.content import catalog
from evaluation.editors import load_editor
from evaluation.errors import EditorError
from evaluation.estimate import Estimate
from leaderboard import formatting
from leaderboard.models import EditingModel, Run, Suite
from leaderboard.models.runs import ENDED_STATES, RunState

#: The suite that is offered: large enough to rank models, at a tenth of the standard suite's price.
SUITE = "lite"
#: Device files of NVIDIA's and AMD's drivers.
GPUS = ("/dev/nvidiactl", "/dev/kfd")
#: The text of a missing requirement contains this if the requirement can be downloaded.
WEIGHTS = "get the weights"


@dataclass(frozen=True)
class Offer:
    """A model that can be played now, with the estimate of its run."""

    model: EditingModel
    suite: Suite
    estimate: Estimate


def offers() -> list[Offer]:
    """Return the models that can be played on the suite and have no run there, cheapest first."""
    suite = Suite.objects.startable().filter(slug=SUITE).order_by("-version").first()
    if suite is None:
        return []
    failed = set(ENDED_STATES) - {RunState.FINISHED}
    played = Run.objects.filter(suite=suite).outside_experiments().exclude(state__in=failed)
    models = _models().exclude(pk__in=played.values("editing_model"))
    offers = [Offer(model, suite, model.estimate_on(suite)) for model in ready(models)]
    return sorted(offers, key=lambda offer: _price(offer.estimate))


def ready(models: Iterable[EditingModel] | None = None) -> list[EditingModel]:
    """Return the models whose requirements this process's environment meets."""
    return [model for model in (_models() if models is None else models) if not _missing(model)]


def advice() -> list[str]:
    """Return the lines about playable models that `make up` prints with the address.

    The estimates use the shipped suite, because the database may not contain it yet.
    """
    models, suite = ready(), catalog.suite(SUITE)
    estimates = [(model, model.estimate_run(suite)) for model in models]
    lines = []
    if estimates:
        model, estimate = min(estimates, key=lambda row: _price(row[1]))
        names = formatting.listed([model.name for model in models])
        budget = "" if estimate.usd is None else f" --budget-usd {math.ceil(estimate.usd * 1.1)}"
        lines = [
            f"You have the keys or weights to play {names}: sign in at /admin/, or run",
            f"  .venv/bin/python manage.py start_run {model.slug} --suite {SUITE}{budget}",
            f"  ({estimate})",
        ]
    weights = (missing for model in _models() for missing in _missing(model) if WEIGHTS in missing)
    if any(Path(path).exists() for path in GPUS) and (missing := next(weights, "")):
        lines.append(f"This machine has a GPU. To play local weights on it, {missing}")
    return lines


def _models() -> QuerySet[EditingModel]:
    hosted = (EditingModel.Access.API, EditingModel.Access.LOCAL)
    return EditingModel.objects.filter(access__in=hosted, status=EditingModel.Status.PUBLISHED)


def _missing(model: EditingModel) -> list[str]:
    try:
        return load_editor(model.editor, **model.options).missing()
    except (EditorError, TypeError, ValueError) as error:
        return [str(error)]


def _price(estimate: Estimate) -> float:
    """Return the price of an estimate, infinite if unknown, for sorting."""
    return math.inf if estimate.usd is None else estimate.usd
