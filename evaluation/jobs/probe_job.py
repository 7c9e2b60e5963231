"""Test a submitted endpoint, each step written down as it happens, so that a page shows it live."""

from __future__ import annotations

import time

import structlog
from django.db.models.functions import Now

from evaluation.measuring.probe import ProbeReport, Step, probe_steps
from leaderboard import endpoints
from leaderboard.models import SecurityEvent, Submission
from leaderboard.notifications import notify_submitter

log = structlog.get_logger(__name__)
TIMEOUT = 120.0


def probe(submission_id: int) -> None:
    """Send one small picture there and back; the submission moves on by what came of it."""
    submission = Submission.objects.filter(pk=submission_id).first()
    if submission is None or submission.state != Submission.State.PROBING:
        return
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
    report = ProbeReport((), 0.0)
    for step in probe_steps(options):
        steps[step.name] = step
        report = ProbeReport(tuple(steps.values()), time.monotonic() - start)
        Submission.objects.filter(pk=submission.pk).update(probe=report.to_dict(), updated_at=Now())
    log.info("endpoint tested", submission=submission.pk, ok=report.ok)
    to = Submission.State.REVIEW if report.ok else Submission.State.PROBE_FAILED
    if submission.move(to, probed_at=Now()):
        notify_submitter(submission)
    else:
        log.info("submission moved on during its test", submission=submission.pk)
