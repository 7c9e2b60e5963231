"""Canaries: weekly small runs of hosted models, to detect changed answers."""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.core.mail import mail_admins
from django.utils import timezone

from leaderboard.jobs import control
from leaderboard.models import EditingModel, Run, Suite, Use
from leaderboard.standings import changes

log = structlog.get_logger(__name__)

#: Time between two small runs of a model.
EVERY = timedelta(days=7)


def start_due() -> None:
    """Start a small run of each canary model that had no such run in the last week.

    Failed and cancelled runs count too: a model that cannot be played costs one attempt a week.
    """
    suite = Suite.objects.startable().filter(slug=changes.SUITE).order_by("-version").first()
    if suite is None:
        return
    recent = Run.objects.filter(suite=suite, created_at__gt=timezone.now() - EVERY)
    models = EditingModel.objects.filter(canary=True, status=EditingModel.Status.PUBLISHED)
    due = models.exclude(pk__in=recent.outside_experiments().values("editing_model"))
    for model in due:
        # Only one of several workers starts the run.
        if Use.objects.take("canary", {"model": f"model {model.pk}"}, 1) is not None:
            continue
        budget = control.start_budget(model.estimate_on(suite))
        run = control.start(model, suite, **budget)
        # The run stays unpublished until a person publishes it, unless the model has public runs.
        if model.runs.filter(published=True).exists():
            Run.objects.filter(pk=run.pk).update(published=True)
        log.info("canary started", run=run.pk, model=model.slug)


def mail_change(run: Run) -> None:
    """Mail the admins if this run of a canary model may show changed answers."""
    if not run.editing_model.canary or run.suite.slug != changes.SUITE:
        return
    change = changes.last_change(run.editing_model)
    if change and change.after.pk == run.pk and change.changed is not False:
        log.warning("canary", run=run.pk, changed=change.changed, text=change.sentence)
        mail_admins(f"{run.editing_model}: canary", change.sentence, fail_silently=True)
