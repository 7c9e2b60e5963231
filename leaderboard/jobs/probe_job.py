"""Test a submitted endpoint; each step is saved at once, for a live page.

A slow endpoint must not delay other submissions. An endpoint's first test yields after some seconds
if another endpoint waits for its first test; it starts again later. Endpoints whose test overran
before are tested one at a time, so that one of the two workers is always free for first tests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import structlog
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from evaluation.editors.base import Editor
from evaluation.errors import Fault
from evaluation.images import EncodedImage
from evaluation.measuring.probe import ProbeReport, Step, probe_steps
from leaderboard import endpoints, job_queue
from leaderboard.jobs.resilience import DATABASE_UNAVAILABLE, renewing
from leaderboard.models import SecurityEvent, StoredImage, Submission, Use
from leaderboard.models.runs import after
from leaderboard.operation.notifications import notify_submitter

log = structlog.get_logger(__name__)
#: Limits of one edit and of a whole test, in seconds.
TIMEOUT = 120.0
DEADLINE = 300.0
#: DEADLINE is halved for each earlier test that overran, down to this share of it.
SHORTEST_SHARE = 1 / 4
#: A first test yields after this many seconds if another first test waits.
TURN = 4.0
#: After TURN, a first test checks this often whether another first test waits.
CHECK_SECONDS = 0.5
#: A test that killed its process this often is not repeated automatically.
MAX_ATTEMPTS = 3
ERROR_HERE = Step(
    "settings",
    "failed",
    "the test failed on the endpoint's answer",
    "Check your endpoint's answer. If it is right, this is our error: please write to us.",
)
YIELDED = Step(
    "address",
    "running",
    "the endpoint has not answered yet; its test starts again after the tests of other endpoints",
)


def probe(_submission_id: int) -> None:
    """Test the next waiting endpoint with one small image; set its submission's new state.

    The submission may differ from the one that enqueued the job. Every test ends: any error is a
    result of the test, and attempts that kill the process are limited to MAX_ATTEMPTS.
    """
    submission = _claim_next()
    if submission is None:
        return
    try:
        _test(submission)
    finally:
        _wake_next()


def _claim_next() -> Submission | None:
    """Claim the next test and count the attempt; return None if no test may begin."""
    with transaction.atomic():
        # Without this lock, two workers could both begin a test that overran before.
        Use.objects.locked("claim probe", "the site")
        row = Submission.objects.waiting_for_test().first()
        if row is None or (row.probe_overruns and Submission.objects.long_tests().exists()):
            return None
        Submission.objects.filter(pk=row.pk).update(
            probe_lease_until=after(settings.LEASE_SECONDS),
            probe_attempts=F("probe_attempts") + 1,
            updated_at=Now(),
        )
    row.refresh_from_db()
    return row


def _wake_next() -> None:
    for pk in Submission.objects.waiting_for_test().values_list("pk", flat=True)[:1]:
        job_queue.enqueue(pk, job_queue.PROBE, job_queue.PROBES)


def _test(submission: Submission) -> None:
    row = Submission.objects.filter(pk=submission.pk, state=Submission.State.PROBING)
    turn = _Turn(submission)
    try:
        if submission.probe_attempts > MAX_ATTEMPTS:
            raise RuntimeError(f"the test was started {MAX_ATTEMPTS} times and did not end")
        with renewing(lambda: row.update(probe_lease_until=after(settings.LEASE_SECONDS))):
            report = _report(submission, turn)
    except DATABASE_UNAVAILABLE:
        raise  # the test starts again; the attempt is counted
    except Exception:
        log.exception("endpoint not tested", submission=submission.pk)
        report = ProbeReport((ERROR_HERE,), 0.0)
        row.update(probe=report.to_dict())
    if turn.has_yielded and not report.ok:
        log.info("endpoint tested later: others wait", submission=submission.pk)
        row.update(
            probe=ProbeReport((YIELDED,), 0.0).to_dict(),
            probe_lease_until=None,
            probe_attempts=0,
            probe_overruns=F("probe_overruns") + 1,
            updated_at=Now(),
        )
        return
    log.info("endpoint tested", submission=submission.pk, ok=report.ok)
    to = Submission.State.REVIEW if report.ok else Submission.State.PROBE_FAILED
    overruns = 0 if report.ok else submission.probe_overruns + _timed_out(report)
    if submission.move(
        to, probed_at=Now(), probe_lease_until=None, probe_attempts=0, probe_overruns=overruns
    ):
        if not report.ok:
            endpoints.uncount_submission(submission)
        notify_submitter(submission)
    else:
        log.info("submission moved on during its test", submission=submission.pk)


def _timed_out(report: ProbeReport) -> bool:
    return any(step.data.get("fault") == Fault.TIMEOUT.value for step in report.steps)


@dataclass
class _Turn:
    """The turn of one test; a first test yields to another first test that waits."""

    submission: Submission
    _yielded: threading.Event = field(default_factory=threading.Event)

    @property
    def has_yielded(self) -> bool:
        return self._yielded.is_set()

    def pause(self, seconds: float) -> None:
        """Sleep for these seconds, or until the test yields."""
        self._yielded.wait(seconds)

    @contextmanager
    def watched(self) -> Iterator[Callable[[Editor], None]]:
        """Yield a function that registers the editor; the editor is closed when the test yields."""
        over = threading.Event()
        threads: list[threading.Thread] = []

        def watch(editor: Editor) -> None:
            delay = TURN
            while not over.wait(delay):
                delay = CHECK_SECONDS
                with suppress(DatabaseError):  # the next check may succeed
                    if Submission.objects.waiting_for_test().filter(probe_overruns=0).exists():
                        self._yielded.set()
                        editor.close()
                        break
            connection.close()  # each thread has its own connection

        def opened(editor: Editor) -> None:
            if not self.submission.probe_overruns:
                threads.append(threading.Thread(target=watch, args=(editor,), daemon=True))
                threads[-1].start()

        try:
            yield opened
        finally:
            over.set()
            for thread in threads:
                thread.join()


def _report(submission: Submission, turn: _Turn) -> ProbeReport:
    start, steps = time.monotonic(), dict[str, Step]()

    def record(kind: str, detail: str) -> None:
        SecurityEvent.record(kind, detail, submission=submission)

    options = {
        **endpoints.editor_options(submission),
        **endpoints.rule_options(),
        "api_key": submission.api_key.reveal(),
        "timeout": TIMEOUT,
        "group": f"probe-{submission.pk}",
        "on_security_event": record,
    }
    rows = Submission.objects.filter(pk=submission.pk)

    def keep(name: str, image: EncodedImage) -> None:
        stored = StoredImage.objects.get_or_store(image)
        stored.write_previews(image)
        rows.update(**{f"probe_{name}": stored})

    report = ProbeReport((), 0.0)
    seconds = DEADLINE * max(SHORTEST_SHARE, 0.5**submission.probe_overruns)
    with turn.watched() as opened:
        for step in probe_steps(
            options, seconds=seconds, keep=keep, opened=opened, pause=turn.pause
        ):
            steps[step.name] = step
            report = ProbeReport(tuple(steps.values()), time.monotonic() - start)
            rows.update(probe=report.to_dict(), updated_at=Now())
    return report
