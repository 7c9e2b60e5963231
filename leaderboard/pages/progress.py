"""How far a run is, in a few cheap queries: what its page polls."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from django.db.models import F, Sum
from django.utils import timezone

from leaderboard import job_queue
from leaderboard.jobs.control import queue_of
from leaderboard.models import Call, Run
from leaderboard.models.runs import ACTIVE_STATES, RunState

#: The rate is that of the last minutes; a page asks for workers at most so often (seconds).
WINDOW = timedelta(minutes=2)
WORKERS_SECONDS = 5.0

_workers: dict[str, tuple[float, int | None]] = {}


def progress(run: Run) -> dict[str, Any]:
    """Numbers and words for the page of a run under way; nothing in it is secret."""
    queue_name = queue_of(run.editing_model)
    active = run.state in ACTIVE_STATES
    edits_left = _edits_left(run) if active else 0
    rate = _rate(run) if run.state == RunState.PLAYING else None
    return {
        "state": run.state,
        "label": run.get_state_display(),
        "ended": run.is_ended,
        "reason": run.reason,
        "reason_text": run.reason_text,
        "resume_at": _iso(run.resume_at),
        "chains": {"done": run.progress.chains_done, "total": run.progress.chains_total},
        "edits": {
            "done": run.progress.edits_done,
            "total": run.progress.edits_total,
            "left": edits_left,
        },
        "trips": {
            "scored": run.progress.trips_scored,
            "total": run.progress.chains_total * run.suite.trips,
        },
        "calls": run.progress.calls,
        "spent_usd": float(run.progress.spent_usd),
        "edits_per_minute": rate,
        "seconds_left": round(60 * edits_left / rate) if rate and edits_left else None,
        "position": _position(run) if run.state == RunState.QUEUED else None,
        "workers": {name: workers(name) for name in dict.fromkeys((queue_name, job_queue.GPU))}
        if active
        else {},
        "last_error": run.progress.last_error,
        "started_at": _iso(run.started_at),
        "finished_at": _iso(run.finished_at),
        "progress_at": _iso(run.progress.progress_at),
    }


def workers(queue_name: str) -> int | None:
    """Workers alive on a queue; None when Redis does not answer."""
    asked, count = _workers.get(queue_name, (-WORKERS_SECONDS, None))
    if time.monotonic() - asked >= WORKERS_SECONDS:
        count = job_queue.workers(queue_name)
        _workers[queue_name] = time.monotonic(), count
    return count


def _edits_left(run: Run) -> int:
    """What chains under way still need; broken chains need nothing more."""
    trips = run.suite.trips
    share = F("case__edits") * (trips - F("trips_played"))
    return (run.chains.unplayed().aggregate(left=Sum(share))["left"] or 0) // trips


def _rate(run: Run) -> float | None:
    """Edits per minute of late."""
    now = timezone.now()
    since = max(now - WINDOW, run.started_at or now - WINDOW)
    answered = Call.objects.filter(run=run, started_at__gte=since, outcome=Call.ANSWERED).count()
    minutes = max((now - since).total_seconds(), 1) / 60
    return round(answered / minutes, 1) if answered else None


def _position(run: Run) -> int:
    """Its place among the queued runs, from 1."""
    queued = Run.objects.filter(state=RunState.QUEUED)
    return queued.filter(created_at__lt=run.created_at).count() + 1


def _iso(moment: Any) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None
