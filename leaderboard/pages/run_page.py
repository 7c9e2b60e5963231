"""Content of a run's page: progress, next step, and results that only this page shows."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from statistics import fmean
from typing import Any

from django.core.cache import cache
from django.db.models import Avg, Count, F, Sum
from django.utils import timezone

from evaluation.content.operators import DEGRADATIONS
from evaluation.estimate import duration
from evaluation.measuring.calibration import retention
from leaderboard import formatting, job_queue
from leaderboard.board.breakdowns import pair_titles, shade
from leaderboard.jobs.control import queue_of
from leaderboard.models import Audit, Calibration, Call, Chain, MetricVersion, Run, Score
from leaderboard.models.runs import ACTIVE_STATES, RunState
from leaderboard.models.suites import Category
from leaderboard.operation import scoring_packages

#: Period over which the speed is measured, and seconds for which a count of workers is reused.
WINDOW = timedelta(minutes=2)
WORKERS_SECONDS = 5.0

_workers: dict[str, tuple[float, int | None]] = {}


def progress(run: Run) -> dict[str, Any]:
    """Return the public progress of a run, for its page and the API."""
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
        "workers": {
            name: workers_alive(name) for name in dict.fromkeys((queue_name, job_queue.GPU))
        }
        if active
        else {},
        "last_error": run.progress.last_error,
        "started_at": _iso(run.started_at),
        "finished_at": _iso(run.finished_at),
        "progress_at": _iso(run.progress.progress_at),
    }


def workers_alive(queue_name: str) -> int | None:
    """Return the number of workers on a queue; None if Redis does not answer."""
    counted_at, count = _workers.get(queue_name, (-WORKERS_SECONDS, None))
    if time.monotonic() - counted_at >= WORKERS_SECONDS:
        count = job_queue.workers(queue_name)
        _workers[queue_name] = time.monotonic(), count
    return count


def _edits_left(run: Run) -> int:
    """Count the edits left in unfinished chains."""
    trips = run.suite.trips
    share = F("case__edits") * (trips - F("trips_played"))
    return (run.chains.unplayed().aggregate(left=Sum(share))["left"] or 0) // trips


def _rate(run: Run) -> float | None:
    """Return the recent edits per minute; None if there were no edits."""
    now = timezone.now()
    since = max(now - WINDOW, run.started_at or now - WINDOW)
    answered = Call.objects.filter(run=run, started_at__gte=since, outcome=Call.ANSWERED).count()
    minutes = max((now - since).total_seconds(), 1) / 60
    return round(answered / minutes, 1) if answered else None


def _position(run: Run) -> int:
    """Return the run's place in the queue, from 1."""
    queued = Run.objects.filter(state=RunState.QUEUED)
    return queued.filter(created_at__lt=run.created_at).count() + 1


def _iso(moment: Any) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None


#: Size of the SVG that shows the curve of an active run.
CURVE_SIZE = (300, 100)

NOW = {
    RunState.QUEUED: "Waiting for a worker.",
    RunState.PLAYING: "Edits are being made, in many chains at the same time if the model allows it.",
    RunState.SCORING: "All edits are made. The restored images are being scored.",
    RunState.PAUSED: "Paused. Finished trips are kept.",
    RunState.FINISHED: "Finished: every chain is played and scored.",
    RunState.FAILED: "The run failed. Finished trips are kept.",
    RunState.CANCELLED: "Cancelled. Finished trips are kept.",
}
NEXT = {
    RunState.QUEUED: "Then all cases are played, trip by trip, and scored.",
    RunState.PLAYING: "Each chain is scored as soon as it is played. The numbers appear here when all "
    "chains are scored.",
    RunState.SCORING: "When the last restored image is scored, half-life and ranks are computed.",
    RunState.FAILED: "An administrator decides whether the run resumes where it stopped.",
}


def live(run: Run) -> dict[str, Any]:
    """Return the public state that a run's page polls, under 2 KB."""
    current = progress(run)
    return {
        "state": current["state"],
        "ended": current["ended"],
        # The share of the work that is done: edits count most, scoring the remainder.
        "done": round(_share_done(run), 4),
        "lines": _lines(run, current),
        **curve_so_far(run),
    }


def _share_done(run: Run) -> float:
    if run.state == RunState.FINISHED:
        return 1.0
    edits, trips = run.progress.edits_total, run.progress.chains_total * run.suite.trips
    if run.state == RunState.SCORING:  # broken chains leave edits that are never made
        return 0.9 + 0.1 * min(
            1.0, run.progress.trips_scored / max(1, min(trips, run.progress.edits_done // 2))
        )
    made = run.progress.edits_done / edits if edits else 0.0
    if run.stop_after:  # chains that stop early also leave edits that are never made
        made = max(made, run.progress.chains_done / max(1, run.progress.chains_total))
    scored = run.progress.trips_scored / trips if trips else 0.0
    return min(1.0, 0.9 * made + 0.1 * scored)


def _lines(run: Run, current: dict[str, Any]) -> dict[str, str]:
    """Return the text of each live element of the page; some are empty."""
    active = run.state in ACTIVE_STATES
    rate, left = current["edits_per_minute"], current["seconds_left"]
    spent = f", {formatting.usd(run.progress.spent_usd)} spent" if run.progress.spent_usd else ""
    return {
        "label": current["label"],
        "now": now(run),
        "why": run.reason_text if run.state in (RunState.PAUSED, RunState.FAILED) else "",
        "next": what_next(run),
        "edits": f"{run.progress.edits_done:,} of {run.progress.edits_total:,}",
        "chains": f"{run.progress.chains_done:,} of {run.progress.chains_total:,}",
        "scored": f"{run.progress.trips_scored:,} of "
        f"{run.progress.chains_total * run.suite.trips:,}",
        "rate": f"{rate:g} edits a minute" if rate else "–",
        "left": f"about {duration(left)}" if left else "–",
        "calls": f"{formatting.count(run.progress.calls, 'call')}{spent}",
        "queue": f"place {current['position']}" if current["position"] else "–",
        "workers": _workers_words(current["workers"]) if active else "–",
        "error": run.progress.last_error if not run.is_ended else "",
    }


def now(run: Run) -> str:
    """Describe the present state in a sentence."""
    preparation = scoring_packages.read_stage()
    if run.state == RunState.SCORING and preparation and preparation.is_shown:
        return "All edits are made. Scoring starts when its packages are installed."
    return NOW[RunState(run.state)]


def what_next(run: Run) -> str:
    """Describe the next step in a sentence; empty if there is none."""
    if run.state == RunState.PAUSED:
        if run.resume_at:
            return (
                f"The run resumes by itself at {run.resume_at:%H:%M} UTC on {run.resume_at:%d %B}."
            )
        return (
            "An administrator is notified. The run continues where it stopped when they resume it."
        )
    if run.state == RunState.FINISHED and not run.published:
        return "The run is not public yet: a person reviews it first."
    return NEXT.get(RunState(run.state), "")


def _workers_words(counts: dict[str, int | None]) -> str:
    """Return the workers, such as "2 editing, 1 scoring", or the reason why nothing happens."""
    if any(count is None for count in counts.values()):
        return "the queue does not answer; the run is safe and continues when the queue answers"
    names = {"edits": "editing", "gpu": "scoring"}
    words = [f"{count} {names.get(queue, queue)}" for queue, count in counts.items()]
    if not any(counts.values()):
        return "no worker is running; the run continues when one starts"
    return ", ".join(words)


def curve_so_far(run: Run) -> dict[str, Any]:
    """Return the mean retention of the trips scored so far, cached until more trips are scored.

    This plain mean is only for watching a run. The board weights the cases.
    """
    name = next(iter(run.scored_metrics), None)
    if name is None or not run.progress.trips_scored or run.state == RunState.FINISHED:
        return {"metric": "", "curve": [], "path": ""}
    key = f"curve-so-far/{run.pk}/{run.progress.trips_scored}"
    drawing: dict[str, Any] | None = cache.get(key)
    if drawing is None:
        curve = _mean_retention(run, name)
        drawing = {
            "metric": formatting.metric_label(name),
            "curve": curve,
            "path": path([1.0, *(q for q, _ in curve)], run.suite.trips),
        }
        cache.set(key, drawing, 3600)
    return drawing


def _mean_retention(run: Run, name: str) -> list[tuple[float, int]]:
    """Return the mean retention and the number of scored chains of each trip."""
    pinned = run.metrics[name]
    metric = MetricVersion.objects.filter(
        name=name, version=pinned["version"], weights_sha256=pinned.get("weights_sha256") or ""
    ).first()
    image = "trip__chain__case__image__pixels_sha256"
    rows = list(
        Score.objects.filter(trip__chain__run=run, metric=metric)
        .values_list("trip__number", image)
        .annotate(distance=Avg("distance"), chains=Count("pk"))
    )
    blanks = dict(
        Calibration.objects.filter(
            metric=metric, pixels_sha256__in={pixels for _, pixels, _, _ in rows}
        ).values_list("pixels_sha256", "blank")
    )
    totals: dict[int, list[float]] = {}
    for number, pixels, distance, chains in rows:
        share = retention(distance, blanks.get(pixels))
        if share is not None:
            total = totals.setdefault(number, [0.0, 0])
            total[0] += share * chains
            total[1] += chains
    return [
        (round(total / chains, 3), int(chains)) for _, (total, chains) in sorted(totals.items())
    ]


def path(values: list[float], trips: int) -> str:
    """Return the curve as an SVG path on CURVE_SIZE; negative values are drawn at 0."""
    width, height = CURVE_SIZE
    points = [
        f"{width * n / trips:.0f} {height * (1 - min(1, max(0, q))):.1f}"
        for n, q in enumerate(values)
    ]
    return f"M{'L'.join(points)}"


def compared_orders(run: Run) -> list[dict[str, Any]]:
    """Compare the results of the same edits in different orders, averaged over images.

    Distances are RMSE on a scale of 0 to 255.
    """
    titles = pair_titles(run.suite_id)
    groups: dict[tuple[str, str, int], dict[int, list[float]]] = defaultdict(dict)
    images: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for row in run.orders:
        key = (row["pair"], row["against"], row["standing"])  # "standing": edits not undone yet
        groups[key].setdefault(row["edits"], []).append(255 * row["distance"])
        images[key].add(row["image"])
    return [
        {
            "pair": titles.get(pair, pair),
            "against": titles.get(against, against),
            "when": _edits_made(edits_in_place),
            "images": len(images[pair, against, edits_in_place]),
            "first": fmean(by_edits[min(by_edits)]),
            "last": fmean(by_edits[max(by_edits)]),
            "edits": max(by_edits),
        }
        for (pair, against, edits_in_place), by_edits in groups.items()
    ]


def _edits_made(edits_in_place: int) -> str:
    if not edits_in_place:
        return "all edits undone"
    return "one edit made" if edits_in_place == 1 else f"{edits_in_place} edits made"


def restoration_matrix(chains: Sequence[Chain], metric: str) -> dict[str, Any] | None:
    """Return the final retention by scene and degradation, averaged over repeats.

    Scenes are rows, degradations are columns, and a cell is a retention, a shade and a case.
    Returns None if any chain is not of the category "restoration".
    """
    if not chains or any(chain.case.category != Category.RESTORATION for chain in chains):
        return None
    by_cell: dict[tuple[str, str], list[float]] = defaultdict(list)
    cases: dict[tuple[str, str], int] = {}
    for chain in chains:
        key = chain.case.image.title, chain.case.pair_slug
        cases[key] = chain.case_id
        if retention := chain.retention(metric):
            by_cell[key].append(retention[-1])
    order = {f"restore-{name}": item.title for name, item in DEGRADATIONS.items()}
    pairs = {chain.case.pair_slug: chain.case.pair_title for chain in chains}
    slugs = [*(s for s in order if s in pairs), *sorted(s for s in pairs if s not in order)]
    kept = {key: fmean(values) for key, values in by_cell.items()}

    def cell(scene: str, slug: str) -> tuple[float | None, int, int | None]:
        share = kept.get((scene, slug))
        darkness = 0 if share is None else shade(max(0.0, share), 1.0)
        return share, darkness, cases.get((scene, slug))

    scenes = sorted({scene for scene, _ in cases})
    columns = [[kept[scene, slug] for scene in scenes if (scene, slug) in kept] for slug in slugs]
    return {
        "head": [order.get(slug, pairs[slug]) for slug in slugs],
        "rows": [(scene, [cell(scene, slug) for slug in slugs]) for scene in scenes],
        "means": [fmean(values) if values else None for values in columns],
    }


def audits(run: Run) -> list[Audit]:
    """Return the audits (extra requests that test for cheating) of a run, with their images.

    Returns none for an unfinished run, because the plan of its audits is secret, and none for a
    sealed suite, because the images are secret.
    """
    if run.state != RunState.FINISHED or run.suite.sealed:
        return []
    finished = Audit.objects.filter(chain__run=run).exclude(outcome=Audit.Outcome.PLANNED)
    return list(finished.select_related("chain__case", "sent", "answer"))
