"""A run's state in words: what happens now, what comes next, how long it takes."""

from __future__ import annotations

from typing import Any

from django.core.cache import cache
from django.db.models import Avg, Count

from evaluation.measuring.scoring import retention
from leaderboard import formatting
from leaderboard.models import Calibration, MetricVersion, Run, Score
from leaderboard.models.runs import ACTIVE_STATES, RunState
from leaderboard.operation import scoring_packages
from leaderboard.pages.progress import progress

#: The growing curve is drawn on a plane of this size.
PLANE = (300, 100)

NOW = {
    RunState.QUEUED: "Waiting for a worker.",
    RunState.PLAYING: "Edits are being made, many chains at once where the model allows it.",
    RunState.SCORING: "All edits are made. What came back is being scored.",
    RunState.PAUSED: "Paused. What is finished is kept.",
    RunState.FINISHED: "Finished: every chain is played and scored.",
    RunState.FAILED: "The run failed. What was finished is kept.",
    RunState.CANCELLED: "Cancelled. What was finished is kept.",
}
NEXT = {
    RunState.QUEUED: "Then all cases are played, trip by trip, and scored.",
    RunState.PLAYING: "When a chain is played it is scored; when all are, the numbers appear here.",
    RunState.SCORING: "When the last return is scored, half-life and ranks are computed.",
    RunState.FAILED: "A person looks at it; it can be resumed where it stopped.",
}


def live(run: Run) -> dict[str, Any]:
    """What the page of a run polls: numbers and sentences, under 2 KB, nothing secret."""
    known = progress(run)
    return {
        "state": known["state"],
        "ended": known["ended"],
        # Edits are most of the work, scoring the rest.
        "done": round(_done(run), 4),
        "lines": _lines(run, known),
        **curve_so_far(run),
    }


def _done(run: Run) -> float:
    if run.state == RunState.FINISHED:
        return 1.0
    edits, trips = run.progress.edits_total, run.progress.chains_total * run.suite.trips
    if run.state == RunState.SCORING:  # broken chains leave edits that nobody will make
        return 0.9 + 0.1 * min(
            1.0, run.progress.trips_scored / max(1, min(trips, run.progress.edits_done // 2))
        )
    made = run.progress.edits_done / edits if edits else 0.0
    if run.stop_after:  # so do chains that are stopped
        made = max(made, run.progress.chains_done / max(1, run.progress.chains_total))
    scored = run.progress.trips_scored / trips if trips else 0.0
    return min(1.0, 0.9 * made + 0.1 * scored)


def _lines(run: Run, known: dict[str, Any]) -> dict[str, str]:
    """One sentence or number for each place in the page; empty ones are not shown."""
    active = run.state in ACTIVE_STATES
    rate, left = known["edits_per_minute"], known["seconds_left"]
    spent = f", {formatting.usd(run.progress.spent_usd)} spent" if run.progress.spent_usd else ""
    return {
        "label": known["label"],
        "now": now(run),
        "why": run.reason_text if run.state in (RunState.PAUSED, RunState.FAILED) else "",
        "next": what_next(run),
        "edits": f"{run.progress.edits_done:,} of {run.progress.edits_total:,}",
        "chains": f"{run.progress.chains_done:,} of {run.progress.chains_total:,}",
        "scored": f"{run.progress.trips_scored:,} of {run.progress.chains_total * run.suite.trips:,}",
        "rate": f"{rate:g} a minute" if rate else "–",
        "left": about(left) if left else "–",
        "calls": f"{formatting.count(run.progress.calls, 'call')}{spent}",
        "queue": f"place {known['position']}" if known["position"] else "–",
        "workers": workers(known["workers"]) if active else "–",
        "error": run.progress.last_error if not run.is_ended else "",
    }


def now(run: Run) -> str:
    """What happens at present, in a sentence."""
    preparation = scoring_packages.read()
    if run.state == RunState.SCORING and preparation and preparation.is_told:
        return "All edits are made. What came back waits until what scores it is installed."
    return NOW[RunState(run.state)]


def what_next(run: Run) -> str:
    """What comes after the present state, in a sentence; empty where nothing does."""
    if run.state == RunState.PAUSED:
        if run.resume_at:
            return f"It goes on by itself at {run.resume_at:%H:%M} UTC on {run.resume_at:%d %B}."
        return "A person has been told; it goes on where it stopped."
    if run.state == RunState.FINISHED and not run.published:
        return "It is not public yet: a person looks at it first."
    return NEXT.get(RunState(run.state), "")


def workers(counts: dict[str, int | None]) -> str:
    """ "2 editing, 1 scoring", or why nothing happens."""
    if any(count is None for count in counts.values()):
        return "the queue does not answer; the run is safe and goes on when it does"
    names = {"edits": "editing", "gpu": "scoring"}
    said = [f"{count} {names.get(queue, queue)}" for queue, count in counts.items()]
    if not any(counts.values()):
        return "none is alive; it goes on as soon as one is"
    return ", ".join(said)


def about(seconds: float) -> str:
    """ "about 7 min", "about 3 h"; nobody needs the seconds."""
    if seconds < 90:
        return "about a minute"
    if seconds < 5400:
        return f"about {round(seconds / 60)}\u00a0min"
    if seconds < 36 * 3600:
        return f"about {round(seconds / 3600)}\u00a0h"
    return f"about {round(seconds / 86400)} days"


def curve_so_far(run: Run) -> dict[str, Any]:
    """Mean retention of the trips scored until now; counted anew only when there are more.

    A plain mean over what is there, for watching: the numbers of the board come
    from standings, which weigh the cases.
    """
    name = next(iter(run.scored_metrics), None)
    if name is None or not run.progress.trips_scored or run.state == RunState.FINISHED:
        return {"metric": "", "curve": [], "path": ""}
    key = f"curve-so-far/{run.pk}/{run.progress.trips_scored}"
    found: dict[str, Any] | None = cache.get(key)
    if found is None:
        curve = _mean_retention(run, name)
        found = {
            "metric": formatting.metric_label(name),
            "curve": curve,
            "path": path([1.0, *(q for q, _ in curve)], run.suite.trips),
        }
        cache.set(key, found, 3600)
    return found


def _mean_retention(run: Run, name: str) -> list[tuple[float, int]]:
    """Per trip: the mean share kept, and of how many chains."""
    pinned = run.metrics[name]
    metric = MetricVersion.objects.filter(
        name=name, version=pinned["version"], weights_sha256=pinned.get("weights_sha256") or ""
    ).first()
    picture = "trip__chain__case__picture__pixels_sha256"
    rows = list(
        Score.objects.filter(trip__chain__run=run, metric=metric)
        .values_list("trip__number", picture)
        .annotate(distance=Avg("distance"), chains=Count("pk"))
    )
    blanks = dict(
        Calibration.objects.filter(
            metric=metric, pixels_sha256__in={pixels for _, pixels, _, _ in rows}
        ).values_list("pixels_sha256", "blank")
    )
    totals: dict[int, list[float]] = {}
    for number, pixels, distance, chains in rows:
        kept = retention(distance, blanks.get(pixels))
        if kept is not None:
            total = totals.setdefault(number, [0.0, 0])
            total[0] += kept * chains
            total[1] += chains
    return [
        (round(total / chains, 3), int(chains)) for _, (total, chains) in sorted(totals.items())
    ]


def path(values: list[float], trips: int) -> str:
    """The curve as an SVG path on PLANE; what is below a blank card lies on the ground."""
    width, height = PLANE
    points = [
        f"{width * n / trips:.0f} {height * (1 - min(1, max(0, q))):.1f}"
        for n, q in enumerate(values)
    ]
    return f"M{'L'.join(points)}"
