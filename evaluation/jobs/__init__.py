"""RQ glue: the only module of the harness that knows the site.

The database is the truth, Redis a doorbell. A job takes a run's number and
does whatever the database says is left to do; it is safe to call twice, at
once, or after a crash.
"""

from __future__ import annotations

from queue import SimpleQueue
from uuid import UUID

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError

from evaluation.errors import UserFacingError
from evaluation.jobs import control, provenance
from evaluation.jobs.control import (
    CannotMove,
    cancel,
    enqueue,
    estimate,
    pause,
    play_again,
    resume,
    score_again,
    start,
)
from evaluation.jobs.recovery import sweep
from leaderboard import queue
from leaderboard.models import Run
from leaderboard.models.runs import RunState

__all__ = [
    "CannotMove",
    "cancel",
    "enqueue",
    "estimate",
    "export",
    "pause",
    "play",
    "play_again",
    "probe",
    "resume",
    "score",
    "score_again",
    "score_uploaded_chain",
    "start",
    "sweep",
]

log = structlog.get_logger(__name__)


def play(run_id: int) -> None:
    """Play what a run still lacks."""
    from evaluation.jobs import forking
    from evaluation.jobs.play_job import PlayJob
    from evaluation.jobs.score_job import ScoreJob
    from evaluation.jobs.writer import Alarm, Inbox

    run = Run.objects.select_related("editing_model", "suite").filter(pk=run_id).first()
    if run is None or run.state not in (RunState.QUEUED, RunState.PLAYING):
        return
    queue_name, token = control.queue_of(run.editing_model), queue.own_token()
    inbox: Inbox = SimpleQueue()
    try:
        editor = control.editor_of(run, lambda kind, detail: inbox.put(Alarm(kind, detail)))
        missing = editor.missing()
    except (UserFacingError, TypeError, ValueError, ImportError) as error:
        control.pause(run, "configuration", f"The editor is not set up: {error}")
        return
    if missing:
        control.pause(run, "configuration", f"The editor is not set up: {'; '.join(missing)}")
        return
    began = run.state == RunState.QUEUED and run.move(RunState.PLAYING)
    if began or not run.started_at:  # whoever began it may have been killed before it was written
        provenance.record(run, editor)
    log.info("play", run=run.pk)
    processes, most = 1, 1
    if queue_name == queue.EDITS:
        most = settings.MAX_CALLS_IN_FLIGHT
        if queue.in_worker():
            limit = min(most, run.editing_model.max_in_flight, run.chains.unplayed().count())
            if (processes := forking.processes_for(limit)) > 1:
                most = -(-limit // processes)

    def with_token(own: UUID) -> None:
        player = PlayJob(run, editor, queue_name, own, inbox, most)
        if queue_name == queue.GPU:
            player.between_chains = ScoreJob(run, own).score_what_there_is
        try:
            player.play()
        except (OperationalError, InterfaceError):
            raise  # the database is away: the sweeper rings again when it is back
        except Exception as error:  # else it would come back every half minute, unseen
            log.exception("play failed", run=run.pk)
            control.pause(run, "internal", f"{type(error).__name__}: {error}")

    if processes > 1:
        forking.in_processes(processes, token, with_token)
    else:
        with_token(token)
    run.refresh_from_db()
    if run.state == RunState.PLAYING and not run.chains.unplayed().exists():
        run.move(RunState.SCORING)
    control.enqueue(run)


def score(run_id: int) -> None:
    """Score what a run has played, and draw its sums when all is there."""
    from evaluation.jobs.score_job import ScoreJob

    run = Run.objects.select_related("editing_model", "suite").filter(pk=run_id).first()
    if run is not None:
        ScoreJob(run, queue.own_token()).run_to_end()


def probe(submission_id: int) -> None:
    """Test a submitted endpoint."""
    from evaluation.jobs import probe_job

    probe_job.probe(submission_id)


def score_uploaded_chain(chain_id: int) -> None:
    """Score a chain that a visitor brought."""
    from evaluation.jobs import uploaded_chain_job

    uploaded_chain_job.score(chain_id)


def export(suite_id: int) -> None:
    """Write the public scores of a suite as a file."""
    from leaderboard.exchange import exports
    from leaderboard.models import Suite

    suite = Suite.objects.defer("definition").filter(pk=suite_id).first()
    if suite is not None:
        exports.write_parquet(suite)
