"""Play what a run still lacks: the RQ job around the one player."""

from __future__ import annotations

import structlog
from django.conf import settings

from evaluation.editors.base import Editor
from evaluation.errors import UserFacingError
from evaluation.play.player import Player
from evaluation.play.retries import Limits
from evaluation.play.store import Paused
from leaderboard import job_queue
from leaderboard.jobs import control, provenance
from leaderboard.jobs.database_store import DatabaseStore
from leaderboard.jobs.job_errors import pausing
from leaderboard.jobs.score_job import ScoreJob
from leaderboard.models import Run
from leaderboard.models.runs import RunState

log = structlog.get_logger(__name__)

#: The worker gives an edit up by the count of attempts, however long they wait.
LIMITS = Limits(attempts=5, seconds=86_400)


def play(run_id: int) -> None:
    """Play what a run still lacks."""
    run = Run.objects.select_related("editing_model", "suite").filter(pk=run_id).first()
    if run is None or run.state not in (RunState.QUEUED, RunState.PLAYING):
        return
    queue_name, token = control.queue_of(run.editing_model), job_queue.own_token()
    store = DatabaseStore(run, token, queue_name)
    editor = _ready_editor(run, store)
    if editor is None:
        return
    began = run.state == RunState.QUEUED and run.move(RunState.PLAYING)
    if began or not run.started_at:  # whoever began it may have been killed before it was written
        provenance.record(run, editor)
    log.info("play", run=run.pk)
    if queue_name == job_queue.GPU:
        store.between_chains = ScoreJob(run, token).score_what_there_is
    parallel = 1 if queue_name == job_queue.GPU else settings.MAX_CALLS_IN_FLIGHT
    with pausing(run, "Playing"):
        try:
            Player(editor, store, parallel, LIMITS).play()
        except Paused as pause:
            log.info("play paused", run=run.pk, reason=pause.reason)
        finally:
            editor.close()
    run.refresh_from_db()
    if run.state == RunState.PLAYING and not run.chains.unplayed().exists():
        run.move(RunState.SCORING)
    control.enqueue(run)


def _ready_editor(run: Run, store: DatabaseStore) -> Editor | None:
    """Return the run's editor; None, and the run paused, where it is not set up."""
    try:
        editor = control.editor_of(run, store.alarm)
        problem = "; ".join([*editor.missing(), *run.core_arm.unable(editor)])
    except (UserFacingError, TypeError, ValueError, ImportError) as error:
        problem = str(error)
    if problem:
        control.pause(run, "configuration", f"The editor is not set up: {problem}")
        return None
    return editor
