"""Template tags of the admin's first page: runs, queues and submissions."""

from __future__ import annotations

from typing import Any

from django import template
from django.conf import settings
from django.db.models import Count
from redis.exceptions import RedisError
from rq import Worker

from leaderboard import job_queue
from leaderboard.models import Run, Submission
from leaderboard.operation import playable

register = template.Library()
#: Maximum number of models offered on the first page; the form for a new run lists all models.
MAX_OFFERS = 6


@register.simple_tag
def queue_state() -> dict[str, Any]:
    """Return the unfinished runs by state, the queues, and the submissions to review."""
    runs = Run.objects.unfinished().order_by().values_list("state").annotate(Count("pk"))
    return {
        "runs": list(runs),
        "queues": [_queue(name) for name in settings.RQ_QUEUES],
        "review": Submission.objects.filter(state=Submission.State.REVIEW).count(),
    }


@register.simple_tag
def playable_models() -> list[playable.Offer]:
    """Return models that have no run, but whose key or weights this machine has."""
    return playable.offers()[:MAX_OFFERS]


#: Names of the apps on the admin's first page, in order.
APPS = {
    "leaderboard": "Benchmark, runs and submissions",
    "auth": "Users and permissions",
    "axes": "Signing in",
}


@register.filter
def in_order_of_use(apps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the apps of the admin's first page, renamed and in order of use.

    The app of the queues is left out: it has no tables, and the page shows queues separately.
    """
    order = list(APPS)
    renamed = [
        app | {"name": APPS.get(app["app_label"], app["name"])}
        for app in apps
        if app["app_label"] != "django_rq"
    ]
    last = len(order)
    return sorted(
        renamed,
        key=lambda app: order.index(app["app_label"]) if app["app_label"] in APPS else last,
    )


def _queue(name: str) -> dict[str, Any]:
    try:
        queue = job_queue.get_queue(name)
        return {"name": name, "workers": Worker.count(queue=queue), "waiting": queue.count}
    except (RedisError, OSError):
        return {"name": name, "error": True}
