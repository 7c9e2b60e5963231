"""The job that checks a contributed run: recompute every number, then publish it."""

from __future__ import annotations

import time
from collections import Counter

import structlog
from django.conf import settings
from django.core.files.storage import default_storage
from django.db import transaction

from evaluation.bundle import document as bundles
from evaluation.bundle.checks import EQUAL
from evaluation.bundle.document import Bundle, BundleError
from evaluation.bundle.verify import Verification
from evaluation.play.finish import review
from leaderboard import job_queue, standings
from leaderboard.contributions import admission
from leaderboard.contributions.admission import LIMITS, model_of
from leaderboard.contributions.importing import calibrated_metrics, store_pictures, write_run
from leaderboard.jobs.database_scores import DatabaseScores
from leaderboard.jobs.resilience import asked_to_stop
from leaderboard.models import ContributedRun, RunReview

#: Attempts on a bundle that kills the process.
MAX_ATTEMPTS = 3
#: Turns of `TURN_SECONDS` each, before a check lets other jobs run.
TURNS = 10
#: Seconds between two reports of progress.
OFTEN = 2.0

log = structlog.get_logger(__name__)
State = ContributedRun.State


class Stopped(Exception):
    """The worker stops, other jobs wait, or the run was withdrawn."""


def check(contribution_id: int) -> None:
    """Publish the run if every number of it is confirmed; else refuse it."""
    contribution = ContributedRun.objects.filter(pk=contribution_id).first()
    # The attempt is counted before any image is decoded: a killed process cannot report.
    if contribution is None or not contribution.claim():
        return
    try:
        if contribution.attempts > MAX_ATTEMPTS:
            raise BundleError("it could not be checked: the check did not survive it")
        with (
            default_storage.open(contribution.file_name) as file,
            bundles.read(file, **LIMITS) as bundle,
        ):
            _take(contribution, bundle)
    except Stopped:
        job_queue.enqueue(
            contribution_id, job_queue.CHECK_CONTRIBUTED, job_queue.GPU
        )  # behind the others
        return
    except BundleError as error:
        _refuse(contribution, str(error))
    except FileNotFoundError:
        _refuse(contribution, "its file is gone: please contribute it again")
    except Exception:
        log.exception("contributed run not checked", contribution=contribution.pk)
        if contribution.attempts < MAX_ATTEMPTS:
            # The sweep enqueues it again.
            ContributedRun.objects.filter(pk=contribution_id).update(
                state=State.WAITING, lease_until=None
            )
            return
        _refuse(contribution, "the fault is ours and has been noted; please write to us")
    default_storage.delete(contribution.file_name)


def _refuse(contribution: ContributedRun, why: str) -> None:
    log.info("contributed run refused", contribution=contribution.pk, why=why[:200])
    contribution.end(State.REFUSED, error=why[:4000])


def _take(contribution: ContributedRun, bundle: Bundle) -> None:
    """Recompute the run and write its rows.

    Raises BundleError if the run is refused.
    """
    suite = admission.suite_of(bundle)
    verification = Verification(bundle, contribution.finished)
    counts = _counts(contribution, verification)
    metrics, _ = calibrated_metrics(bundle, suite, verification, only_able=True)
    pictures = store_pictures(bundle)
    with transaction.atomic():
        run = write_run(
            bundle,
            suite,
            model_of(contribution),
            metrics,
            pictures,
            verified=True,
            counts=counts,
            provenance=admission.provenance(verification, contribution.contributed_by),
            # The flags are set below, from the audits.
            flags=[],
            published=True,
        )
        store = DatabaseScores(run, job_queue.own_token())
        store.save_review(review(store, verification.scorer))
        RunReview.objects.filter(pk=run.pk).update(
            hints=[*run.review.hints, *admission.same_pictures(run)]
        )
        if not contribution.end(State.SHOWN, run=run, editing_model=run.editing_model):
            raise Stopped
        standings.rebuild(run)
        standings.refresh_ranks(suite)
    log.info("contributed run shown", contribution=contribution.pk, run=run.pk)


def _counts(contribution: ContributedRun, verification: Verification) -> dict[str, int]:
    """Return the number of checks by verdict.

    Raises BundleError with the reasons if the run is refused, and Stopped if the check must
    pause.
    """
    reasons = list(admission.reasons_before(verification))
    finished = verification.finished
    # Counts of all checks, of the finished chains, and of the current chain.
    counts, sure, here = Counter(contribution.checks), Counter(contribution.checks), Counter[str]()
    chains_finished, before = len(finished), _lines(verification)
    lines: set[str] = set()
    began, reported_at = time.monotonic(), 0.0
    for check in verification.checks() if not reasons else ():
        if len(finished) > chains_finished:
            chains_finished = len(finished)
            sure += here
            here.clear()
        counts[check.verdict] += 1
        if verification.in_chains:
            here[check.verdict] += 1
        if check.what == "digest":
            lines.add(check.line)
        if why := admission.reason(check, verification):
            reasons.append(why)
        if len(reasons) >= admission.REASONS:
            break
        if time.monotonic() - reported_at > OFTEN:
            reported_at = time.monotonic()
            if not contribution.tell(before + len(lines), verification.steps):
                raise Stopped
            on = (
                verification.in_chains
                and not reasons
                and chains_finished > len(contribution.finished)
            )
            if asked_to_stop() or (on and _others_wait(began)):
                if on:  # a chain with a wrong number must be checked again
                    contribution.finished, contribution.checks = finished, dict(sure)
                contribution.leave()
                raise Stopped
    if reasons:
        raise BundleError("\n".join(reasons))
    return {EQUAL: counts[EQUAL]} | dict(counts)


def _lines(verification: Verification) -> int:
    """Return the number of lines in the chains that were checked before."""
    chains = verification.document.chains
    return sum(1 + len(chain.trips) for chain in chains if chain.name in verification.finished)


def _others_wait(began: float) -> bool:
    """Return True if the check should let other jobs run.

    It should at once for a visitor's job, and for other jobs after its turns. A large check takes
    hours and checks its sources again at each start, so its turns are long.
    """
    over = time.monotonic() - began > TURNS * settings.TURN_SECONDS
    return job_queue.should_leave(0, job_queue.GPU, turn_is_over=over)
