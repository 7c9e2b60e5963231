"""Finds what no job waits for: work of dead workers, lost jobs, runs whose pause is over."""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.conf import settings
from django.db.models.functions import Now

from evaluation.jobs import control
from leaderboard import garbage, queue, score_files
from leaderboard.models import Chain, Run, Submission, UploadedChain, UploadedPicture, Use
from leaderboard.models.runs import RunState
from leaderboard.standings import reports

log = structlog.get_logger(__name__)


def _forget_uploads() -> None:
    """Delete chains that were kept for their day: rows and pictures."""
    expired = list(UploadedChain.objects.expired().values_list("pk", flat=True)[:200])
    if expired:
        pictures = UploadedPicture.objects.filter(chain__in=expired)
        keys = set(pictures.values_list("stored_id", flat=True))
        UploadedChain.objects.filter(pk__in=expired).delete()
        removed = garbage.collect_pictures(keys)
        log.info("uploads deleted", chains=len(expired), pictures=removed.rows)


def sweep() -> None:
    """Take back lapsed leases, resume runs that are due, enqueue all unfinished work."""
    if taken := Chain.objects.take_back():
        log.warning("chains taken back from workers that are gone", chains=taken)
    for run in Run.objects.due():
        if run.move(RunState.QUEUED):
            log.info("run goes on", run=run.pk)
    for run in Run.objects.active().select_related("editing_model").order_by("created_at"):
        control.enqueue(run)
    # A test that a dead worker left, or whose job was lost.
    quiet = Now() - timedelta(seconds=settings.LEASE_SECONDS)
    waiting = Submission.objects.filter(state=Submission.State.PROBING)
    for pk in waiting.filter(updated_at__lt=quiet).values_list("pk", flat=True):
        queue.enqueue(pk, queue.PROBE, queue.PROBES)
    waiting_chains = UploadedChain.objects.kept().filter(state=UploadedChain.State.WAITING)
    for pk in waiting_chains.filter(created_at__lt=quiet).values_list("pk", flat=True):
        queue.enqueue(pk, queue.SCORE_UPLOADED, queue.GPU)
    _forget_uploads()
    if Use.objects.take("collect garbage", {"the site": "all"}, 1) is None:  # once a day
        queue.enqueue(0, queue.COLLECT_GARBAGE, queue.GPU)
    Use.objects.expired().delete()
    for suite in {*score_files.stale(), *reports.stale()}:
        queue.enqueue(suite.pk, queue.EXPORT, queue.GPU)
