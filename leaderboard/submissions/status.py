"""A submission's status in words and numbers, and its result before it is public."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from django.db.models import Q
from django.urls import reverse

from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.estimate import Estimate, duration
from evaluation.witnesses import witness_label
from evaluation.witnesses.base import Verdict
from leaderboard import formatting
from leaderboard.models import EditingModel, Run, Standing, StoredImage, Submission, Trip
from leaderboard.models.runs import ACTIVE_STATES, RunState
from leaderboard.operation.notifications import NEXT
from leaderboard.pages import model_page, strips
from leaderboard.pages.model_page import RunResults
from leaderboard.pages.run_page import progress
from leaderboard.submissions import workflow

#: Number of restored images that the page of an active run shows, the newest first.
LATEST = 8
#: Maximum number of cases whose edit was not made in the private result.
MAX_UNMADE = 40
#: Number of past reviews from which the waiting time is estimated.
REVIEWS = 10
TONES = {
    Submission.State.PROBE_FAILED: "bad",
    Submission.State.REJECTED: "bad",
    Submission.State.ASKED: "warn",
    Submission.State.WITHDRAWN: "",
}


def state(submission: Submission) -> dict[str, Any]:
    """Return what the submitter may see: state, test, queue, run and next step."""
    run = workflow.newest_run(submission)
    label = _label(submission, run)
    return {
        "state": submission.state,
        # The page reloads when the stage changes, to offer other actions.
        "stage": f"{submission.state} {label}",
        "label": label,
        "tone": TONES.get(Submission.State(submission.state), "accent"),
        "next": what_next(submission, run),
        "message": submission.message,
        "probe": submission.probe.get("steps", []),
        "images": [_image_link(submission, *item) for item in submission.probe_images],
        "probed": submission.probed_at is not None,
        "run": _run(run) if run else None,
        "restored": _restored(submission, run) if run and run.state in ACTIVE_STATES else [],
        "ended": has_ended(submission, run),
        "queue": _queue(submission),
    }


def _label(submission: Submission, run: Run | None) -> str:
    """Return the state in a few words; after the run has ended, the run's state."""
    if run and run.is_ended and submission.state == Submission.State.APPROVED:
        return run.public_state.partition(":")[0]
    return submission.get_state_display()


def _image_link(submission: Submission, label: str, image: StoredImage) -> dict[str, str]:
    """Return an image with an address that contains the submission's secret token."""
    address = reverse("submission_image", args=[submission.token, "thumbnail", image.pk])
    return {"src": address, "label": label}


def _restored(submission: Submission, run: Run) -> list[dict[str, str]]:
    """Return the newest restored images of an active run."""
    trips = Trip.objects.filter(chain__run=run, restored__isnull=False)
    newest = trips.select_related("chain__case__image", "restored").order_by("-pk")[:LATEST]
    return [
        _image_link(submission, f"{trip.chain.case.image.title}, trip {trip.number}", trip.restored)
        for trip in newest
        if trip.restored
    ]


def has_ended(submission: Submission, run: Run | None) -> bool:
    """Return True if the status is final."""
    over = submission.state in (Submission.State.REJECTED, Submission.State.WITHDRAWN)
    return over or _is_public(run) or bool(run and run.state == RunState.CANCELLED)


#: Step of the submit page, 1 to 5, by state; other states have no step.
STEPS = {
    Submission.State.PROBING: 2,
    Submission.State.PROBE_FAILED: 2,
    Submission.State.REVIEW: 3,
    Submission.State.ASKED: 3,
    Submission.State.APPROVED: 4,
}


def step(submission: Submission, run: Run | None) -> int:
    """Return the step of the submission, from 1 to 5; 0 if it ended without a result."""
    if run and run.state == RunState.FINISHED and submission.state == Submission.State.APPROVED:
        return 5
    return STEPS.get(Submission.State(submission.state), 0)


def what_next(submission: Submission, run: Run | None) -> str:
    """Describe the next step in a sentence."""
    if run and submission.state == Submission.State.APPROVED:
        if run.state == RunState.FINISHED:
            next_step = (
                ""
                if run.published or run.withdrawn_at
                else (" Review the result below, then publish or withdraw it.")
            )
            return f"{run.public_state}.{next_step}"
        if run.state == RunState.PAUSED and run.reason == "key_rejected":
            return "Your endpoint rejected the key. Set a new key, and the run continues."
        if run.state == RunState.PAUSED:
            return f"Paused: {run.reason_text} Finished trips are kept."
    return NEXT[Submission.State(submission.state)]


def reviews_before(submission: Submission) -> int | None:
    """Count the submissions that will be reviewed earlier; None if this one awaits no review."""
    if submission.state != Submission.State.REVIEW:
        return None
    waiting = Submission.objects.filter(state=Submission.State.REVIEW)
    return waiting.filter(created_at__lt=submission.created_at).count()


def estimate(submission: Submission) -> Estimate:
    """Return edits, price and hours of a run on the requested suite."""
    model = submission.editing_model or EditingModel(
        price_per_edit=submission.price_per_edit, max_in_flight=submission.max_in_flight
    )
    return model.estimate_on(submission.suite)


#: Added to the words on the cost if chains may be stopped early.
FEWER = " Fewer if images wear out early: we stop editing an image soon after its result is known."


def cost(submission: Submission) -> str:
    """Return the cost of a run for the submitter: calls, money and time."""
    expected = estimate(submission)
    money = "" if expected.usd is None else f", ${expected.usd:,.2f} at your price"
    at_once = formatting.count(submission.max_in_flight, "call")
    return (
        f"{'at most ' if expected.stop_after else ''}{expected.edits:,} calls to your endpoint"
        f"{money}, plus repeats of failed calls. With "
        f"{at_once} at once, the run takes about {duration(expected.seconds)}"
        f"{'' if _pace_is_known(submission) else ' if an edit takes ten seconds'}."
        f"{FEWER if expected.stop_after else ''}"
    )


def _pace_is_known(submission: Submission) -> bool:
    run = workflow.newest_run(submission)
    return bool(run and run.progress.edits_done)


def _is_public(run: Run | None) -> bool:
    return bool(run and run.published and run.state == RunState.FINISHED)


def _queue(submission: Submission) -> str:
    before = reviews_before(submission)
    if before is None:
        return ""
    place = "Yours is the next to be reviewed."
    if before:
        place = f"{formatting.count(before, 'submission')} will be reviewed before yours."
    return f"{place} {_usual_wait()}"


def _usual_wait() -> str:
    """Return the duration of the last reviews in words."""
    reviewed = Submission.objects.exclude(reviewed_at=None).exclude(probed_at=None)
    times = reviewed.order_by("-reviewed_at").values_list("probed_at", "reviewed_at")[:REVIEWS]
    waits = [(end - begin).total_seconds() for begin, end in times if begin and end]
    if not waits:
        return "A person reviews each submission, so we cannot promise a time."
    half, longest = duration(median(waits)), duration(max(waits))
    return (
        f"Of the last {formatting.count(len(waits), 'submission')}, half were reviewed within "
        f"{half}, all within {longest}."
    )


def _run(run: Run) -> dict[str, Any]:
    """Return the progress of the evaluation as numbers and in words."""
    now = progress(run)
    edits, trips = now["edits"], now["trips"]
    if now["position"]:
        words = _in_the_queue(run, now["position"] - 1)
    else:
        words = (
            f"{now['label']}: {edits['done']:,} of {edits['total']:,} edits, "
            f"{trips['scored']:,} trips scored{_time_left(now['seconds_left'])}."
        )
    return {"done": edits["done"], "total": edits["total"], "words": words}


def _in_the_queue(run: Run, runs_before: int) -> str:
    """Return the run's place in the queue and the remaining work of the runs before it."""
    length = duration(
        run.editing_model.estimate(run.progress.edits_total, run.progress.chains_total).seconds
    )
    waiting = Run.objects.active().filter(created_at__lt=run.created_at)
    seconds = sum(
        other.editing_model.estimate(
            max(0, other.progress.edits_total - other.progress.edits_done),
            other.progress.chains_total,
        ).seconds
        for other in waiting.select_related("editing_model")[:20]
    )
    ahead = f", with about {duration(seconds)} of work left" if seconds else ""
    return (
        f"Queued: {formatting.count(runs_before, 'run')} before this one{ahead}. Runs take turns; "
        f"yours takes about {length} by itself."
    )


def _time_left(seconds: float | None) -> str:
    if not seconds:
        return ""
    minutes = math.ceil(seconds / 60)
    return f", about {minutes} min left" if minutes < 120 else f", about {minutes / 60:.0f} h left"


#: Number of best cases and of worst cases that are shown.
EXTREMES = 2


def result(run: Run | None) -> dict[str, Any] | None:
    """Return the private result for the submitter.

    Returns None before the run has finished, or on a sealed suite, whose cases are secret.
    """
    if run is None or run.state != RunState.FINISHED or run.suite.sealed:
        return None
    results = RunResults.for_run(run)
    if results is None:
        return {"answer": "The run is finished, but nothing could be scored."}
    trips, details = results.trips, results.standing.details
    first = Trip.objects.filter(chain__run=run, chain__repeat=0, number=1)
    evidence = dict(first.values_list("chain__case", "evidence"))
    unmade = [case for case, rows in evidence.items() if Verdict.from_evidence(rows).made is False]
    keys = [row["case"] for end in ("worst", "best") for row in details.get(end, [])[:EXTREMES]]
    keys = list(dict.fromkeys([*unmade[:MAX_UNMADE], *keys]))
    chains = run.chains.filter(case__in=keys, repeat=0).select_related("case__image__stored")
    by_case = {chain.case_id: chain for chain in chains}
    shown = [by_case[case] for case in keys if case in by_case]
    short_strips = strips.short_strips(shown, trips, results.metric)
    return {
        "results": results,
        "answer": model_page.lifetime_sentence(results),
        "place": _nearest_references(results),
        "unmade": len(unmade),
        "judged": sum(Verdict.from_evidence(rows).made is not None for rows in evidence.values()),
        "strips": [
            (strip, _witness_statements(evidence.get(strip.chain.case_id, [])))
            for strip in short_strips
        ],
    }


def _witness_statements(evidence: Sequence[Mapping[str, Any]]) -> str:
    """Return whether witnesses saw the edit in the first edited image, as "glasses: seen".

    Witnesses are automatic checks of an edit, such as an object detector.
    """
    return "; ".join(
        f"{row['thing']}: {'seen' if row['made'] else 'not seen'}, by "
        f"{witness_label(row['witness'])}"
        for row in evidence
        if row["made"] is not None
    )


def _nearest_references(results: RunResults) -> str:
    """Compare the result with the nearest reference editors, by usable trips."""
    runs = Run.objects.on_the_board().filter(
        suite=results.run.suite, editing_model__is_reference=True
    )
    rows = Standing.objects.filter(
        run__in=runs, scope="all", threshold=DEFAULT_THRESHOLD, metric__name=results.metric
    ).values_list("usable_trips", "run__editing_model__name")
    ours = results.standing.usable_trips
    worse, better = (
        max((r for r in rows if r[0] <= ours), default=None),
        min((r for r in rows if r[0] > ours), default=None),
    )
    ends = [f"{name} ({usable:.1f})" for usable, name in filter(None, (worse, better))]
    if len(ends) == 2:
        lower, upper = ends
        return f"By usable trips, the model lies between the reference editors {lower} and {upper}."
    if not ends:
        return ""
    extreme = "at least as long as the best" if worse else "not as long as the weakest"
    return f"The model lasts {extreme} reference editor, {ends[0]}."


def image(run: Run | None, sha256: str) -> StoredImage | None:
    """Return an image of the run's answers, for its submitter before publication."""
    if run is None or run.suite.sealed:
        return None
    trips = Trip.objects.filter(chain__run=run)
    if not trips.filter(Q(edited=sha256) | Q(restored=sha256)).exists():
        return None
    return StoredImage.objects.filter(pk=sha256).first()
