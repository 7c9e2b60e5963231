"""What needs somebody today: runs, pauses and what mends them, queues, money, flags, errors."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, QuerySet, Sum
from django.utils import timezone

from leaderboard.models import Call, Run, SecurityEvent, Submission
from leaderboard.models.runs import RunState
from leaderboard.templatetags.admin_state import queue_state

DAY = timedelta(days=1)
#: Rows of each list; the rest is one click away.
ROWS = 20
#: What mends a pause, by its reason: the words of the button, and where it is done if not here.
MENDS = {
    "budget": "Raise the budget and resume",
    "key_rejected": "",  # only another key helps
    "out_of_credit": "Resume: it was topped up",
    "storage": "Resume: there is room again",
    "metric_version": "Score all of it with today's metrics",
}


def today() -> dict[str, Any]:
    """Everything that the page shows, each list in the order of its urgency."""
    now = timezone.now()
    runs = Run.objects.select_related("editing_model", "suite").defer("suite__definition")
    calls = Call.objects.filter(started_at__gte=now - DAY)
    return {
        "now": now,
        "under_way": list(runs.active().order_by("created_at")[:ROWS]),
        "paused": [
            {"run": run, "mend": mend(run)}
            for run in runs.filter(state=RunState.PAUSED).order_by("created_at")[:ROWS]
        ],
        "queues": queue_state()["queues"],
        "oldest": _oldest(runs),
        "spend": list(
            calls.filter(cost__gt=0)
            .values("run__editing_model__name")
            .annotate(calls=Count("pk"), usd=Sum("cost"))
            .order_by("-usd", "-calls")[:ROWS]
        ),
        "spent": calls.aggregate(calls=Count("pk"), usd=Sum("cost")),
        "flagged": list(runs.exclude(review__flags=[]).filter(review__cleared=False)[:ROWS]),
        "unpublished": list(
            runs.filter(
                state=RunState.FINISHED,
                published=False,
                withdrawn_at=None,
                editing_model__is_reference=False,
            )[:ROWS]
        ),
        "reviews": list(
            Submission.objects.filter(state=Submission.State.REVIEW)
            .select_related("suite", "probe_edited")
            .order_by("probed_at")[:ROWS]
        ),
        "errors": list(
            calls.exclude(outcome__in=(Call.ANSWERED, Call.CALLING))
            .values("run", "run__editing_model__name", "outcome", "message")
            .annotate(count=Count("pk"))
            .order_by("-count")[:ROWS]
        ),
        "failed": list(runs.filter(state=RunState.FAILED, finished_at__gte=now - DAY)[:ROWS]),
        "events": list(SecurityEvent.objects.filter(created_at__gte=now - DAY)[:ROWS]),
    }


def mend(run: Run) -> str:
    """The words of the button that has a paused run go on; empty where no button helps."""
    if run.resume_at:
        return "Resume now"
    return MENDS.get(run.reason, "Resume")


def _oldest(runs: QuerySet[Run]) -> datetime | None:
    """Since when the run that waits longest has waited."""
    waiting = runs.filter(state=RunState.QUEUED)
    return waiting.order_by("created_at").values_list("created_at", flat=True).first()
