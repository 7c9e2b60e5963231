"""Recover from dead workers, lost jobs and missing images; resume paused runs when due."""

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


def _delete_expired_uploads() -> None:
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

    A chain is played again from the first image that its provider no longer has.
    """
    run = Run.objects.select_related("editing_model", "suite").filter(pk=run_id).first()
    if run is None or not run.is_ended or run.source != Run.Source.OURS:
        return
    editor = control.editor_of(run)
    fetched, first_missing = 0, dict[int, int]()
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
        if _fetch_again(editor, stored, notes.get(IMAGE_ADDRESS)):
            fetched += 1
        else:
            first_missing.setdefault(chain, number)
    editor.close()
    again = control.play_from(run, first_missing) if first_missing else 0
    log.info("images recovered", run=run.pk, fetched=fetched, chains_played_again=again)


def _fetch_again(editor: Editor, stored: StoredImage, url: str | None) -> bool:
    """Store the image again from the provider; return False if it is gone there too."""
    if not url or not isinstance(editor, HostedEditor):
        return False
    try:
        data = editor.fetch_again(url)
    except EditorError as error:
        log.info("image not fetched", image=stored.pk, error=error.message)
        return False
    if sha256(data).hexdigest() != stored.pk:
        return False
    write(stored.name, data)
    return True


def sweep() -> None:
    """Release lapsed claims of dead workers, resume due runs, enqueue all unfinished work."""
    if released := Chain.objects.release_lapsed():
        log.warning("chains released from dead workers", chains=released)
    for run in Run.objects.due():
        if run.move(RunState.QUEUED):
            log.info("run resumed", run=run.pk)
    for run in Run.objects.active().select_related("editing_model").order_by("created_at"):
        control.enqueue(run)
    # Enqueue work again that has not changed for the length of a lease: its worker died, or its
    # job was lost.
    stale = Now() - timedelta(seconds=settings.LEASE_SECONDS)
    waiting = Submission.objects.filter(state=Submission.State.PROBING)
    for pk in waiting.filter(updated_at__lt=stale).values_list("pk", flat=True):
        job_queue.enqueue(pk, job_queue.PROBE, job_queue.PROBES)
    waiting_chains = UploadedChain.objects.unexpired().filter(state=UploadedChain.State.WAITING)
    for pk in waiting_chains.filter(created_at__lt=stale).values_list("pk", flat=True):
        job_queue.enqueue(pk, job_queue.SCORE_UPLOADED, job_queue.GPU)
    unattended = ContributedRun.objects.unattended().filter(created_at__lt=stale)
    for pk in unattended.values_list("pk", flat=True):
        job_queue.enqueue(pk, job_queue.CHECK_CONTRIBUTED, job_queue.GPU)
    canaries.start_due()
    _delete_expired_uploads()
    if Use.objects.take("collect garbage", {"the site": "all"}, 1) is None:  # once a day
        job_queue.enqueue(0, job_queue.COLLECT_GARBAGE, job_queue.GPU)
    Use.objects.expired().delete()
    if counting.is_due():
        job_queue.enqueue(0, job_queue.COUNT_VOTES, job_queue.GPU)
    for suite in {*scores.stale(), *reports.stale()}:
        job_queue.enqueue(suite.pk, job_queue.EXPORT, job_queue.GPU)
