"""The state of runs, queues and submissions, for the admin's first page."""

from __future__ import annotations

from typing import Any

import django_rq
from django import template
from django.conf import settings
from django.db.models import Count
from redis.exceptions import RedisError
from rq import Worker

from leaderboard.models import Run, Submission

register = template.Library()


@register.simple_tag
def queue_state() -> dict[str, Any]:
    """Unfinished runs by state, workers and waiting jobs per queue, submissions to review."""
    runs = Run.objects.unfinished().order_by().values_list("state").annotate(Count("pk"))
    return {
        "runs": list(runs),
        "queues": [_queue(name) for name in settings.RQ_QUEUES],
        "review": Submission.objects.filter(state=Submission.State.REVIEW).count(),
    }


def _queue(name: str) -> dict[str, Any]:
    try:
        queue = django_rq.get_queue(name)
        return {"name": name, "workers": Worker.count(queue=queue), "waiting": queue.count}
    except (RedisError, OSError):
        return {"name": name, "error": True}
