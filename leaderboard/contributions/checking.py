"""The job that checks a contributed run: recompute every number, then publish the run.

The file is untrusted: the site shows only values that were computed here. Every refusal names
its reason.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import structlog
from django.conf import settings
from django.core.files.storage import default_storage
from django.db import transaction

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.bundle import document as bundles
from evaluation.bundle.checks import DIFFERENT, EQUAL, NOT_CHECKED, Check
from evaluation.bundle.document import Bundle, BundleError
from evaluation.bundle.verify import Verification
from evaluation.metrics import METRICS, in_order
from evaluation.play.finish import review
from evaluation.records import chain_name
from leaderboard import job_queue, standings
from leaderboard.contributions.importing import (
    LIMITS,
    calibrated_metrics,
    imported_run,
    store_images,
    write_run,
)
from leaderboard.jobs.database_scores import DatabaseScores
from leaderboard.jobs.resilience import stop_requested
from leaderboard.models import (
    ContributedRun,
    EditingModel,
    Run,
    RunReview,
    StoredImage,
    Suite,
    Trip,
)
from leaderboard.models.entries import free_slug, taken_name

#: A bundle that crashes the process is checked at most this many times.
MAX_ATTEMPTS = 3
#: Turns of `TURN_SECONDS` after which a check lets other jobs run.
TURNS = 10
#: Seconds between two reports of progress.
REPORT_INTERVAL = 2.0
#: The editor of models whose runs are contributed; they cannot be played here.
EDITOR = "elsewhere"
#: The check ends after finding this many reasons to refuse the run.
MAX_REASONS = 5
#: Admins get a hint if another run contains at least this share of the restored images.
SAME_IMAGES = 0.5

log = structlog.get_logger(__name__)
State = ContributedRun.State


class Stopped(Exception):
    """Raised if the worker stops, other jobs wait, or the run was withdrawn."""


def check(contribution_id: int) -> None:
    """Publish the run if all its numbers are confirmed; else refuse it."""
    contribution = ContributedRun.objects.filter(pk=contribution_id).first()
    # Claiming reserves the check for this process. It also counts the attempt, because a process
    # that crashes later cannot count it.
    if contribution is None or not contribution.claim():
        return
    try:
        if contribution.attempts > MAX_ATTEMPTS:
            raise BundleError("the check failed three times on this file")
        with (
            default_storage.open(contribution.file_name) as file,
            bundles.read(file, **LIMITS) as bundle,
        ):
            _verify_and_import(contribution, bundle)
    except Stopped:
        # The check is enqueued again, behind the waiting jobs.
        job_queue.enqueue(contribution_id, job_queue.CHECK_CONTRIBUTED, job_queue.GPU)
        return
    except BundleError as error:
        _refuse(contribution, str(error))
    except FileNotFoundError:
        _refuse(contribution, "its file is missing: please upload it again")
    except Exception:
        log.exception("contributed run not checked", contribution=contribution.pk)
        if contribution.attempts < MAX_ATTEMPTS:
            # The recovery sweep enqueues the check again.
            ContributedRun.objects.filter(pk=contribution_id).update(
                state=State.WAITING, lease_until=None
            )
            return
        _refuse(
            contribution,
            "an error on our side prevented the check. The error is recorded; please write to us",
        )
    default_storage.delete(contribution.file_name)


def _refuse(contribution: ContributedRun, reason: str) -> None:
    log.info("contributed run refused", contribution=contribution.pk, why=reason[:200])
    contribution.end(State.REFUSED, error=reason[:4000])


def _verify_and_import(contribution: ContributedRun, bundle: Bundle) -> None:
    """Recompute the run and write its rows.

    Raises BundleError if the run is refused.
    """
    suite = _suite_of(bundle)
    verification = Verification(bundle, contribution.finished)
    counts = _counts(contribution, verification)
    metrics, _ = calibrated_metrics(bundle, suite, verification, only_computable=True)
    images = store_images(bundle)
    with transaction.atomic():
        run = write_run(
            bundle,
            suite,
            _model_of(contribution),
            metrics,
            images,
            verified=True,
            counts=counts,
            provenance=_provenance(verification, contribution.contributed_by),
            # The flags (reasons not to rank the run) are set below, from the audits: extra
            # requests that test for cheating.
            flags=[],
            published=True,
        )
        store = DatabaseScores(run, job_queue.current_token())
        store.save_review(review(store, verification.scorer))
        RunReview.objects.filter(pk=run.pk).update(hints=[*run.review.hints, *_same_images(run)])
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
    reasons = list(_early_reasons(verification))
    finished = verification.finished
    counts, finished_counts = Counter(contribution.checks), Counter(contribution.checks)
    chain_counts = Counter[str]()  # verdicts of the current chain, discarded by a pause
    chains_finished, lines_before = len(finished), _count_checked_lines(verification)
    lines: set[str] = set()
    began, reported_at = time.monotonic(), 0.0
    for check in verification.checks() if not reasons else ():
        if len(finished) > chains_finished:
            chains_finished = len(finished)
            finished_counts += chain_counts
            chain_counts.clear()
        counts[check.verdict] += 1
        if verification.in_chains:
            chain_counts[check.verdict] += 1
        if check.what == "digest":
            lines.add(check.line)
        if reason := _reason(check, verification):
            reasons.append(reason)
        if len(reasons) >= MAX_REASONS:
            break
        if time.monotonic() - reported_at > REPORT_INTERVAL:
            reported_at = time.monotonic()
            if not contribution.save_progress(lines_before + len(lines), verification.steps):
                raise Stopped
            has_progress = (
                verification.in_chains
                and not reasons
                and chains_finished > len(contribution.finished)
            )
            if stop_requested() or (has_progress and _should_yield(began)):
                if has_progress:  # never with reasons: a chain with a wrong value is checked again
                    contribution.finished = finished
                    contribution.checks = dict(finished_counts)
                contribution.put_back()
                raise Stopped
    if reasons:
        raise BundleError("\n".join(reasons))
    return {EQUAL: counts[EQUAL]} | dict(counts)


def _count_checked_lines(verification: Verification) -> int:
    """Count the lines of the chains that an earlier attempt checked."""
    chains = verification.document.chains
    return sum(1 + len(chain.trips) for chain in chains if chain.name in verification.finished)


def _should_yield(began: float) -> bool:
    """Return True if the check should let other jobs run.

    A job that a visitor waits for runs at once, other jobs after TURNS turns. A check gets many
    turns, because a large check takes hours and checks its sources again at each start.
    """
    over = time.monotonic() - began > TURNS * settings.TURN_SECONDS
    return job_queue.should_yield(0, job_queue.GPU, turn_is_over=over)


# Requirements on a bundle, before and while it is recomputed.


def _suite_of(bundle: Bundle) -> Suite:
    """Return the suite of the bundle's run.

    Raises BundleError if the bundle cannot become a run.
    """
    document, stated_suite = bundle.document, bundle.suite
    if document.run.method_version != METHOD_VERSION:
        raise BundleError(
            f"it was scored by method {document.run.method_version[:20]}, but this site uses "
            f"{METHOD_VERSION}: score it again with the site's version of convergebench"
        )
    suite = Suite.objects.playable().filter(content_hash=stated_suite.content_hash).first()
    if suite is None:
        raise BundleError(
            f"its suite {stated_suite.slug} v{stated_suite.version} "
            f"({stated_suite.content_hash[:12]}) is not a suite "
            "of this site: play one of the site's suites in full, without --trips, "
            "--cases or --limit"
        )
    if not bundle.arm.is_default:
        raise BundleError(
            "it is an arm of an experiment: only runs with the suite's own settings are accepted"
        )
    if not document.images:
        raise BundleError("it contains no images, so nothing can be recomputed")
    required = {
        (case.slug, repeat)
        for case in stated_suite.cases
        for repeat in range(stated_suite.repeats_of(case))
    }
    missing = required - {(chain.case, chain.repeat) for chain in document.chains}
    if missing:
        raise BundleError(
            f"{len(missing)} of {len(required)} chains are missing, such as "
            f"{chain_name(*min(missing))}"
        )
    incomplete = [chain.name for chain in document.chains if chain.outcome == "lost"]
    if incomplete:
        raise BundleError(f"the chain {incomplete[0]} is not complete: play the chain to its end")
    if document.run.earlier_secrets:
        raise BundleError(
            "parts were played again with another run secret: play the whole suite in one run"
        )
    if run := imported_run(bundle) or Run.objects.filter(secret=document.run.secret).first():
        shown = run.published and not run.suite.sealed
        raise BundleError(f"it is already on this site{f' as run {run.pk}' if shown else ''}")
    return suite


def _early_reasons(verification: Verification) -> Iterator[str]:
    """Yield the reasons to refuse the run that are known without recomputing it."""
    headline = in_order(settings.METRICS or METRICS)[0]
    if headline not in verification.bundle.scored_metrics:
        yield (
            f"it was not scored by {headline}: run `convergebench weights`, then "
            "`convergebench score RUN`"
        )
    elif headline in verification.unable:
        yield f"its values of {headline} cannot be recomputed here: {verification.unable[headline]}"
    for name in verification.missing_witnesses:
        yield (
            f"the witness {name}, an automatic check that can end chains, was not run: run "
            "`convergebench weights`, then `convergebench score RUN --again`"
        )


def _reason(check: Check, verification: Verification) -> str:
    """Return this check's reason to refuse the run; empty if the check passes.

    Values of a metric that cannot be computed here are not imported, so they need no check.
    """
    if check.verdict == DIFFERENT:
        return f"{check.line}, {check.what}: {check.detail}"
    if check.verdict == NOT_CHECKED and check.detail not in verification.unable.values():
        return f"{check.line}, {check.what} cannot be checked here: {check.detail}"
    return ""


def _provenance(verification: Verification, contributed_by: str) -> dict[str, Any]:
    """Return the provenance (the record of how it was made) of a contributed run.

    Only two version strings and the hash of the secret, which was checked, come from the bundle.
    """
    suite, stated = verification.suite, verification.document.run.provenance
    versions = {
        name: str(stated[name])[:60] for name in ("convergebench", "python") if name in stated
    }
    return versions | {
        "contributed_by": contributed_by,
        "suite": {
            "slug": suite.slug,
            "version": suite.version,
            "content_hash": suite.content_hash,
        },
        **({"secret_sha256": c[0]} if (c := verification.document.run.commitments) else {}),
        "scoring": verification.scorer.provenance(),
    }


def _same_images(run: Run) -> list[dict[str, str]]:
    """Return hints for admins about other runs that have most of this run's images."""
    trips = Trip.objects.filter(chain__run=run, restored__isnull=False)
    restored = set(trips.values_list("restored_id", flat=True))
    others = Trip.objects.filter(restored__in=StoredImage.objects.filter(pk__in=restored))
    by_run: dict[int, set[str]] = {}
    rows = others.exclude(chain__run=run).values_list("chain__run", "restored_id").distinct()
    for other, image in rows:
        by_run.setdefault(other, set()).add(image)
    return [
        {
            "kind": "same images",
            "text": f"{len(same)} of {len(restored)} restored images also occur in run {pk}",
        }
        for pk, same in sorted(by_run.items())
        if len(same) >= SAME_IMAGES * len(restored)
    ]


def _model_of(contribution: ContributedRun) -> EditingModel:
    """Return the model of a checked run: the contribution's model if it names one, or a new model.

    Raises BundleError if the name is now taken or the model is now hidden.
    """
    model = contribution.editing_model
    if model is not None:
        if model.status != EditingModel.Status.PUBLISHED:  # an admin hid it, or it was withdrawn
            raise BundleError(f"“{model.name}” is no longer on this site: please write to us")
        return model
    if taken := taken_name(contribution.name):
        raise BundleError(f"“{taken}” is already on this site: choose another name")
    return EditingModel.objects.create(
        slug=free_slug(contribution.name),
        name=contribution.name,
        provider=contribution.contributed_by[:80],
        organisation=contribution.contributed_by,
        editor=EDITOR,
        access=EditingModel.Access.ELSEWHERE,
        paper_url=contribution.paper_url,
        code_url=contribution.code_url,
        notes="Contributed as a bundle of a run that was played elsewhere. The model cannot "
        "be played here.",
    )
