"""RQ jobs: claim, lease, pause, resume and recover the work of workers.

The database records all work; Redis only wakes workers. A job takes the primary key of a row and
does the work that the database lists for that row. Calling a job twice, in parallel or after a crash
is safe. RQ calls the jobs by their names in this module.

A lease is a worker's claim to a piece of work; it lapses unless the worker renews it.
"""

from __future__ import annotations

from datetime import timedelta

from leaderboard.contributions.checking import check as check_contributed_run
from leaderboard.exports import scores
from leaderboard.jobs.control import (
    NotAllowed,
    cancel,
    enqueue,
    pause,
    play_again,
    recover,
    resume,
    score_again,
    start,
)
from leaderboard.jobs.play_job import play
from leaderboard.jobs.probe_job import probe
from leaderboard.jobs.recovery import recover_images, sweep
from leaderboard.jobs.score_job import score
from leaderboard.jobs.uploaded_chains import score as score_uploaded_chain
from leaderboard.models import Suite
from leaderboard.operation import storage
from leaderboard.people import ballots, counting
from leaderboard.standings import reports

__all__ = [
    "NotAllowed",
    "cancel",
    "check_contributed_run",
    "collect_garbage",
    "count_votes",
    "enqueue",
    "export",
    "pause",
    "play",
    "play_again",
    "probe",
    "recover",
    "recover_images",
    "resume",
    "score",
    "score_again",
    "score_uploaded_chain",
    "start",
    "sweep",
]


def collect_garbage(_: int) -> None:
    """Remove unreferenced images, and files without rows, that are at least a day old."""
    storage.collect(timedelta(days=1))
    ballots.delete_old_images()


def count_votes(_: int) -> None:
    """Compute the results of people's votes, and choose the next questions."""
    counting.count()


def export(suite_id: int) -> None:
    """Write the reports of a suite's board, and its public scores as a file."""
    suite = Suite.objects.filter(pk=suite_id).first()
    if suite is not None:
        reports.write(suite)
        scores.write(suite)
