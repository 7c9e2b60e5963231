"""Test a submitted endpoint; each step is saved at once, for a live page.

A slow endpoint must not delay others. A first test makes room after some seconds if another first
test waits; it begins again when its turn comes. Of tests that took too long before, one runs
at a time: with two workers, one is always for first tests.
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
from leaderboard.jobs.resilience import DATABASE_AWAY, renewed
from leaderboard.models import SecurityEvent, StoredImage, Submission, Use
from leaderboard.models.runs import after
from leaderboard.operation.notifications import notify_submitter

log = structlog.get_logger(__name__)
#: Limits of one edit and of a whole test, in seconds.
TIMEOUT = 120.0
DEADLINE = 300.0
#: The limit is halved for each test that took too long before, down to this part of it.
SHORTEST = 1 / 4
#: A first test makes room after so many seconds if another one waits.
TURN = 4.0
#: The time between two looks for others that wait.
LOOK = 0.5
#: A test that killed its process so often is not repeated automatically.
MAX_ATTEMPTS = 3
OURS = Step(
    "settings",
    "failed",
    "the test failed on the endpoint's answer",
    "Check your endpoint's answer. If it is right, this is our error: please write to us.",
)


MADE_ROOM = Step(
    "address",
    "running",
    "the endpoint has not answered yet; its test starts again after the first tests of others",
)


def probe(_submission_id: int) -> None:
    """Send one small image there and back; move the submission on by the result.

    The endpoint is the one whose turn it is, whichever submission woke this job. The test always
    ends: an error of any kind is its result, and an attempt that kills the process is counted.
    """
    submission = _claimed()
    if submission is None:
        return
    try:
        _test(submission)
    finally:
        _wake_next()


def _claimed() -> Submission | None:
    """Claim the next test and count the attempt; None if none may begin."""
    with transaction.atomic():
        # Two workers at once would both begin a test that took too long before.
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
    mine = Submission.objects.filter(pk=submission.pk, state=Submission.State.PROBING)
    room = _Room(submission)
    try:
        if submission.probe_attempts > MAX_ATTEMPTS:
            raise RuntimeError(f"the test was begun {MAX_ATTEMPTS} times and did not end")
        with renewed(lambda: mine.update(probe_lease_until=after(settings.LEASE_SECONDS))):
            report = _report(submission, room)
    except DATABASE_AWAY:
        raise  # it is begun again, and counted
    except Exception:
        log.exception("endpoint not tested", submission=submission.pk)
        report = ProbeReport((OURS,), 0.0)
        mine.update(probe=report.to_dict())
    if room.is_made and not report.ok:
        log.info("endpoint tested later: others wait", submission=submission.pk)
        mine.update(
            probe=ProbeReport((MADE_ROOM,), 0.0).to_dict(),
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
class _Room:
    """The room that a first test makes for another one that waits."""

    submission: Submission
    _made: threading.Event = field(default_factory=threading.Event)

    @property
    def is_made(self) -> bool:
        return self._made.is_set()

    def pause(self, seconds: float) -> None:
        """Sleep, but not once room is made."""
        self._made.wait(seconds)

    @contextmanager
    def watched(self) -> Iterator[Callable[[Editor], None]]:
        """Yield a function that takes the editor, whose calls then end when others wait."""
        over = threading.Event()
        threads: list[threading.Thread] = []

        def watch(editor: Editor) -> None:
            rest = TURN
            while not over.wait(rest):
                rest = LOOK
                with suppress(DatabaseError):  # the next look may succeed
                    if Submission.objects.waiting_for_test().filter(probe_overruns=0).exists():
                        self._made.set()
                        editor.close()
                        break
            connection.close()  # each thread has its own

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


def _report(submission: Submission, room: _Room) -> ProbeReport:
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
        stored.write_what_pages_cannot(image)
        rows.update(**{f"probe_{name}": stored})

    report = ProbeReport((), 0.0)
    seconds = DEADLINE * max(SHORTEST, 0.5**submission.probe_overruns)
    with room.watched() as opened:
        for step in probe_steps(
            options, seconds=seconds, keep=keep, opened=opened, pause=room.pause
        ):
            steps[step.name] = step
            report = ProbeReport(tuple(steps.values()), time.monotonic() - start)
            rows.update(probe=report.to_dict(), updated_at=Now())
    return report
