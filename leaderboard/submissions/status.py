"""A submission's status in words and numbers, and its result before it is public."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

from django.db.models import Q
from django.urls import reverse

from evaluation.estimate import Estimate, duration
from leaderboard import formatting
from leaderboard.models import EditingModel, Run, StoredImage, Submission, Trip
from leaderboard.models.runs import ACTIVE_STATES, RunState
from leaderboard.operation.notifications import NEXT
from leaderboard.pages import model_page, strips
from leaderboard.pages.model_page import RunResults
from leaderboard.pages.run_page import progress
from leaderboard.submissions import workflow

#: Returns that the page of a run under way shows, the newest first.
LATEST = 8
#: So many reviews say how long one takes.
REVIEWS = 10
TONES = {
    Submission.State.PROBE_FAILED: "bad",
    Submission.State.REJECTED: "bad",
    Submission.State.ASKED: "warn",
    Submission.State.WITHDRAWN: "",
}


def state(submission: Submission) -> dict[str, Any]:
    """State, test, queue, run and what comes next; nothing in it is secret to its submitter."""
    run = workflow.run_of(submission)
    label = _label(submission, run)
    return {
        "state": submission.state,
        # The page is drawn anew when it changes: other things can be done or seen then.
        "stage": f"{submission.state} {label}",
        "label": label,
        "tone": TONES.get(Submission.State(submission.state), "accent"),
        "next": what_next(submission, run),
        "message": submission.message,
        "probe": submission.probe.get("steps", []),
        "pictures": [_shown(submission, *one) for one in submission.probe_pictures],
        "probed": submission.probed_at is not None,
        "run": _run(run) if run else None,
        "returns": _returns(submission, run) if run and run.state in ACTIVE_STATES else [],
        "ended": has_ended(submission, run),
        "queue": _queue(submission),
    }


def _label(submission: Submission, run: Run | None) -> str:
    """The state in a few words: those of the run once it has ended."""
    if run and run.is_ended and submission.state == Submission.State.APPROVED:
        return run.public_state.partition(":")[0]
    return submission.get_state_display()


def _shown(submission: Submission, label: str, picture: StoredImage) -> dict[str, str]:
    """A picture as the page shows it: by an address that only the page knows."""
    address = reverse("submission_picture", args=[submission.token, "thumbnail", picture.pk])
    return {"src": address, "label": label}


def _returns(submission: Submission, run: Run) -> list[dict[str, str]]:
    """The newest returns of a run under way."""
    trips = Trip.objects.filter(chain__run=run, restored__isnull=False)
    newest = trips.select_related("chain__case__picture", "restored").order_by("-pk")[:LATEST]
    return [
        _shown(submission, f"{trip.chain.case.picture.title}, trip {trip.number}", trip.restored)
        for trip in newest
        if trip.restored
    ]


def has_ended(submission: Submission, run: Run | None) -> bool:
    """Tell if nothing more will happen."""
    over = submission.state in (Submission.State.REJECTED, Submission.State.WITHDRAWN)
    return over or _is_public(run) or bool(run and run.state == RunState.CANCELLED)


#: Which of the five steps of the submit page a state is; 0 where it leads no further.
STEPS = {
    Submission.State.PROBING: 2,
    Submission.State.PROBE_FAILED: 2,
    Submission.State.REVIEW: 3,
    Submission.State.ASKED: 3,
    Submission.State.APPROVED: 4,
}


def step(submission: Submission, run: Run | None) -> int:
    """The step that the submission is at, from 1 to 5; 0 where it has ended otherwise."""
    if run and run.state == RunState.FINISHED and submission.state == Submission.State.APPROVED:
        return 5
    return STEPS.get(Submission.State(submission.state), 0)


def what_next(submission: Submission, run: Run | None) -> str:
    """Say in a sentence what happens next."""
    if run and submission.state == Submission.State.APPROVED:
        if run.state == RunState.FINISHED:
            next_step = (
                ""
                if run.published or run.withdrawn_at
                else (" Look at the result below, and publish it or withdraw it.")
            )
            return f"{run.public_state}.{next_step}"
        if run.state == RunState.PAUSED and run.reason == "key_rejected":
            return "Your endpoint rejected the key. Set a new one and the run goes on."
        if run.state == RunState.PAUSED:
            return f"Paused: {run.reason_text} Every finished trip is kept."
    return NEXT[Submission.State(submission.state)]


def reviews_before(submission: Submission) -> int | None:
    """Count the submissions to review before this one; None if it does not wait."""
    if submission.state != Submission.State.REVIEW:
        return None
    waiting = Submission.objects.filter(state=Submission.State.REVIEW)
    return waiting.filter(created_at__lt=submission.created_at).count()


def estimate(submission: Submission) -> Estimate:
    """Edits, price and hours of a run on the suite that was asked for."""
    model = submission.editing_model or EditingModel(
        price_per_edit=submission.price_per_edit, max_in_flight=submission.max_in_flight
    )
    return model.estimate_on(submission.suite)


#: What is said where chains are stopped.
FEWER = " Fewer where pictures wear out early: a chain ends soon after its end is known."


def cost(submission: Submission) -> str:
    """Say what a run will cost the submitter: calls, money and time."""
    known = estimate(submission)
    money = "" if known.usd is None else f", ${known.usd:,.2f} at your price"
    at_once = formatting.count(submission.max_in_flight, "call")
    return (
        f"{'At most ' if known.stop_after else ''}{known.edits:,} calls to your endpoint{money}, and a few more where it fails. With "
        f"{at_once} at once that takes about {duration(known.seconds)}"
        f"{'' if _pace_is_known(submission) else ' if an edit takes ten seconds'}."
        f"{FEWER if known.stop_after else ''}"
    )


def _pace_is_known(submission: Submission) -> bool:
    run = workflow.run_of(submission)
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
    """Say how long the last reviews took."""
    reviewed = Submission.objects.exclude(reviewed_at=None).exclude(probed_at=None)
    times = reviewed.order_by("-reviewed_at").values_list("probed_at", "reviewed_at")[:REVIEWS]
    waits = [(end - begin).total_seconds() for begin, end in times if begin and end]
    if not waits:
        return "A person does it, so we cannot promise a time."
    half, longest = duration(median(waits)), duration(max(waits))
    return f"Of the last {len(waits)}, half were reviewed within {half}, all within {longest}."


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


def _in_the_queue(run: Run, before: int) -> str:
    """Its place, and how much work the runs before it still have."""
    own = duration(
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
    ahead = f", with about {duration(seconds)} of work among those under way" if seconds else ""
    return (
        f"Queued: {formatting.count(before, 'run')} before this one{ahead}. Runs take turns; "
        f"yours takes about {own} by itself."
    )


def _time_left(seconds: float | None) -> str:
    if not seconds:
        return ""
    minutes = math.ceil(seconds / 60)
    return f", about {minutes} min left" if minutes < 120 else f", about {minutes / 60:.0f} h left"


#: Cases shown at either end.
EXTREMES = 2


def result(run: Run | None) -> dict[str, Any] | None:
    """Return a sentence, numbers, curves and strips; None before the end."""
    if run is None or run.state != RunState.FINISHED or run.suite.sealed:
        return None
    results = RunResults.of(run)
    if results is None:
        return {"answer": "The run is finished, but nothing could be scored."}
    trips, details = results.trips, results.standing.details
    keys = [row["case"] for end in ("worst", "best") for row in details.get(end, [])[:EXTREMES]]
    chains = run.chains.filter(case__in=keys, repeat=0).select_related("case__picture__stored")
    by_case = {chain.case_id: chain for chain in chains}
    shown = [by_case[case] for case in dict.fromkeys(keys) if case in by_case]
    lines = model_page.metric_lines(results.standings, trips)
    return {
        "results": results,
        "answer": model_page.answer(results.standing, trips),
        "lines": [line for line in lines if line.standing],
        "strips": strips.short_strips(shown, trips, results.metric),
    }


def picture(run: Run | None, sha256: str) -> StoredImage | None:
    """Return an image that the run answered with: its submitter may see it before others do."""
    if run is None or run.suite.sealed:
        return None
    trips = Trip.objects.filter(chain__run=run)
    if not trips.filter(Q(edited=sha256) | Q(restored=sha256)).exists():
        return None
    return StoredImage.objects.filter(pk=sha256).first()
