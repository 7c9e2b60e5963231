"""Small runs that a hosted model repeats, to notice when its answers change."""

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
    """Start the small run of each ticked model that has none of the last week.

    Failed and cancelled runs count too: a model that cannot be played costs one try a week.
    """
    suite = Suite.objects.startable().filter(slug=changes.SUITE).order_by("-version").first()
    if suite is None:
        return
    recent = Run.objects.filter(suite=suite, created_at__gt=timezone.now() - EVERY)
    ticked = EditingModel.objects.filter(canary=True, status=EditingModel.Status.PUBLISHED)
    due = ticked.exclude(pk__in=recent.outside_experiments().values("editing_model"))
    for model in due:
        # Of several workers one starts it.
        if Use.objects.take("canary", {"model": f"model {model.pk}"}, 1) is not None:
            continue
        budget = control.start_budget(model.estimate_on(suite))
        run = control.start(model, suite, **budget)
        # It stays unpublished until a person publishes it, unless the model's runs are public.
        if model.runs.filter(published=True).exists():
            Run.objects.filter(pk=run.pk).update(published=True)
        log.info("canary started", run=run.pk, model=model.slug)


def mail_change(run: Run) -> None:
    """Mail the admins if the answers of a ticked model changed with this run."""
    if not run.editing_model.canary or run.suite.slug != changes.SUITE:
        return
    change = changes.last_change(run.editing_model)
    if change and change.after.pk == run.pk and change.changed is not False:
        log.warning("canary", run=run.pk, changed=change.changed, text=change.sentence)
        mail_admins(f"{run.editing_model}: canary", change.sentence, fail_silently=True)
