"""Test a submitted endpoint; each step is saved at once, for a live page."""

from __future__ import annotations

import time

import structlog
from django.conf import settings
from django.db.models.functions import Now

from evaluation.images import EncodedImage
from evaluation.measuring.probe import ProbeReport, Step, probe_steps
from leaderboard import endpoints
from leaderboard.jobs.resilience import DATABASE_AWAY, renewed
from leaderboard.models import SecurityEvent, StoredImage, Submission
from leaderboard.models.runs import after
from leaderboard.operation.notifications import notify_submitter

log = structlog.get_logger(__name__)
#: Limits of one edit and of a whole test, in seconds.
TIMEOUT = 120.0
DEADLINE = 300.0
#: A test that killed its process so often is not repeated automatically.
MAX_ATTEMPTS = 3
OURS = Step(
    "settings",
    "failed",
    "the test could not be completed: what the endpoint answered broke it",
    "Have a look at what your endpoint answers. If it is right, write to us: the fault is ours.",
)


def probe(submission_id: int) -> None:
    """Send one small image there and back; move the submission on by the result.

    The test always ends: an error of any kind is its result, and an attempt that kills the
    process is counted.
    """
    submission = Submission.objects.filter(pk=submission_id).first()
    if submission is None or not submission.claim_probe(after(settings.LEASE_SECONDS)):
        return
    mine = Submission.objects.filter(pk=submission.pk, state=Submission.State.PROBING)
    try:
        if submission.probe_attempts > MAX_ATTEMPTS:
            raise RuntimeError(f"the test was begun {MAX_ATTEMPTS} times and never ended")
        with renewed(lambda: mine.update(probe_lease_until=after(settings.LEASE_SECONDS))):
            report = _report(submission)
    except DATABASE_AWAY:
        raise  # it is begun again, and counted
    except Exception:
        log.exception("endpoint not tested", submission=submission.pk)
        report = ProbeReport((OURS,), 0.0)
        mine.update(probe=report.to_dict())
    log.info("endpoint tested", submission=submission.pk, ok=report.ok)
    to = Submission.State.REVIEW if report.ok else Submission.State.PROBE_FAILED
    if submission.move(to, probed_at=Now(), probe_lease_until=None, probe_attempts=0):
        if not report.ok:
            endpoints.give_submission_back(submission)
        notify_submitter(submission)
    else:
        log.info("submission moved on during its test", submission=submission.pk)


def _report(submission: Submission) -> ProbeReport:
    start, steps = time.monotonic(), dict[str, Step]()

    def record(kind: str, detail: str) -> None:
        SecurityEvent.record(kind, detail, submission=submission)

    options = {
        **endpoints.own_options(submission),
        **endpoints.rule_options(),
        "api_key": submission.api_key.reveal(),
        "timeout": TIMEOUT,
        "group": f"probe-{submission.pk}",
        "on_security_event": record,
    }
    rows = Submission.objects.filter(pk=submission.pk)

    def keep(name: str, image: EncodedImage) -> None:
        stored = StoredImage.objects.get_or_store(image)
        stored.write_what_pages_cannot(image)
        rows.update(**{f"probe_{name}": stored})

    report = ProbeReport((), 0.0)
    for step in probe_steps(options, seconds=DEADLINE, keep=keep):
        steps[step.name] = step
        report = ProbeReport(tuple(steps.values()), time.monotonic() - start)
        rows.update(probe=report.to_dict(), updated_at=Now())
    return report
