"""Recover lost work: dead workers, lost jobs, ended pauses, missing images."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

import structlog
from django.conf import settings
from django.core.files.storage import default_storage
from django.db.models.functions import Now

from evaluation.editors import Editor
from evaluation.editors.payloads import IMAGE_ADDRESS
from evaluation.editors.providers.base import HostedEditor
from evaluation.errors import EditorError
from leaderboard import job_queue
from leaderboard.exports import scores
from leaderboard.jobs import canaries, control
from leaderboard.models import (
    Chain,
    ContributedRun,
    Run,
    StoredImage,
    Submission,
    Trip,
    TripStep,
    UploadedChain,
    UploadedImage,
    Use,
)
from leaderboard.models.images import write
from leaderboard.models.runs import RunState
from leaderboard.operation import storage
from leaderboard.people import counting
from leaderboard.standings import reports

log = structlog.get_logger(__name__)


def _forget_uploads() -> None:
    """Delete the rows and images of expired uploads."""
    expired = list(UploadedChain.objects.expired().values_list("pk", flat=True)[:200])
    if expired:
        images = UploadedImage.objects.filter(chain__in=expired)
        keys = set(images.values_list("stored_id", flat=True))
        UploadedChain.objects.filter(pk__in=expired).delete()
        removed = storage.collect_images(keys)
        log.info("uploads deleted", chains=len(expired), images=removed.rows)
    ContributedRun.objects.expired().delete()


def recover_images(run_id: int) -> None:
    """Restore images of an ended run that are missing from storage.

    If the provider no longer has one, its chain is played again from that trip on.
    """
    run = Run.objects.select_related("editing_model", "suite").filter(pk=run_id).first()
    if run is None or not run.is_ended or run.source != Run.Source.OURS:
        return
    editor = control.editor_of(run)
    fetched, gone = 0, dict[int, int]()
    trips = Trip.objects.filter(chain__run=run).select_related("edited", "restored")
    steps = TripStep.objects.filter(chain__run=run).select_related("image")
    answers = [
        *((t.chain_id, t.number, t.edited, t.edited_notes) for t in trips),
        *((t.chain_id, t.number, t.restored, t.restored_notes) for t in trips),
        *((step.chain_id, step.number, step.image, step.notes) for step in steps),
    ]
    for chain, number, stored, notes in sorted(answers, key=lambda row: row[:2]):
        if stored is None or default_storage.exists(stored.name):
            continue
        if _fetched(editor, stored, notes.get(IMAGE_ADDRESS)):
            fetched += 1
        else:
            gone.setdefault(chain, number)
    editor.close()
    again = control.play_from(run, gone) if gone else 0
    log.info("images looked for", run=run.pk, fetched=fetched, chains_played_again=again)


def _fetched(editor: Editor, stored: StoredImage, url: str | None) -> bool:
    """Return True if the provider still has the same bytes, now in storage again."""
    if not url or not isinstance(editor, HostedEditor):
        return False
    try:
        data = editor.fetch_again(url)
    except EditorError as error:
        log.info("image not kept", image=stored.pk, error=error.message)
        return False
    if sha256(data).hexdigest() != stored.pk:
        return False
    write(stored.name, data)
    return True


def sweep() -> None:
    """Release lapsed leases, resume runs that are due, enqueue all unfinished work."""
    if taken := Chain.objects.release_lapsed():
        log.warning("chains released from dead workers", chains=taken)
    for run in Run.objects.due():
        if run.move(RunState.QUEUED):
            log.info("run continues", run=run.pk)
    for run in Run.objects.active().select_related("editing_model").order_by("created_at"):
        control.enqueue(run)
    # Tests of dead workers, or whose job was lost.
    quiet = Now() - timedelta(seconds=settings.LEASE_SECONDS)
    waiting = Submission.objects.filter(state=Submission.State.PROBING)
    for pk in waiting.filter(updated_at__lt=quiet).values_list("pk", flat=True):
        job_queue.enqueue(pk, job_queue.PROBE, job_queue.PROBES)
    waiting_chains = UploadedChain.objects.kept().filter(state=UploadedChain.State.WAITING)
    for pk in waiting_chains.filter(created_at__lt=quiet).values_list("pk", flat=True):
        job_queue.enqueue(pk, job_queue.SCORE_UPLOADED, job_queue.GPU)
    left = ContributedRun.objects.unattended().filter(created_at__lt=quiet)
    for pk in left.values_list("pk", flat=True):
        job_queue.enqueue(pk, job_queue.CHECK_CONTRIBUTED, job_queue.GPU)
    canaries.start_due()
    _forget_uploads()
    if Use.objects.take("collect garbage", {"the site": "all"}, 1) is None:  # once a day
        job_queue.enqueue(0, job_queue.COLLECT_GARBAGE, job_queue.GPU)
    Use.objects.expired().delete()
    if counting.is_due():
        job_queue.enqueue(0, job_queue.COUNT_VOTES, job_queue.GPU)
    for suite in {*scores.stale(), *reports.stale()}:
        job_queue.enqueue(suite.pk, job_queue.EXPORT, job_queue.GPU)
