"""The RQ job that plays the remaining chains of a run."""

from __future__ import annotations

import json
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac

from evaluation import __version__
from evaluation.editors.base import Editor
from evaluation.errors import UserFacingError
from evaluation.packages import package_versions
from evaluation.play.player import Player
from evaluation.play.retries import Limits
from evaluation.play.store import Paused
from evaluation.run_secret import commitment
from leaderboard import job_queue
from leaderboard.jobs import control
from leaderboard.jobs.database_store import DatabaseStore
from leaderboard.jobs.resilience import DATABASE_UNAVAILABLE, pause_for
from leaderboard.jobs.score_job import ScoreJob
from leaderboard.models import Run
from leaderboard.models.runs import RunState

log = structlog.get_logger(__name__)

#: A worker gives up an edit after this many attempts, or after a day.
LIMITS = Limits(attempts=5, seconds=86_400)
#: Packages that affect the answers.
PACKAGES = ("numpy", "pillow", "opencv-python-headless", "scipy", "httpx2", "diffusers", "torch")


def play(run_id: int) -> None:
    """Play the remaining chains of a run."""
    run = Run.objects.select_related("editing_model", "suite").filter(pk=run_id).first()
    if run is None or run.state not in (RunState.QUEUED, RunState.PLAYING):
        return
    queue_name, token = control.queue_of(run.editing_model), job_queue.current_token()
    store = DatabaseStore(run, token, queue_name)
    editor = _ready_editor(run, store)
    if editor is None:
        return
    is_first = run.state == RunState.QUEUED and run.move(RunState.PLAYING)
    if is_first or not run.started_at:  # the first job may have been killed before this
        record_provenance(run, editor)
    log.info("play", run=run.pk)
    if queue_name == job_queue.GPU:
        store.between_chains = ScoreJob(run, token).score_played
    parallel = 1 if queue_name == job_queue.GPU else settings.MAX_CALLS_IN_FLIGHT
    try:
        Player(editor, store, parallel, LIMITS).play()
    except DATABASE_UNAVAILABLE:
        raise
    except Paused as pause:  # the store has already paused the run
        log.info("play paused", run=run.pk, reason=pause.reason)
    except Exception as error:
        pause_for(run, "Playing", error)
    finally:
        editor.close()
    run.refresh_from_db()
    if run.state == RunState.PLAYING and not run.chains.unplayed().exists():
        run.move(RunState.SCORING)
    control.enqueue(run)


def _ready_editor(run: Run, store: DatabaseStore) -> Editor | None:
    """Return the run's editor; if the editor is not set up, pause the run and return None."""
    try:
        editor = control.editor_of(run, store.alarm)
        problem = "; ".join([*editor.missing(), *run.core_arm.unable(editor)])
    except (UserFacingError, TypeError, ValueError, ImportError) as error:
        problem = str(error)
    if problem:
        control.pause(run, "configuration", f"The editor is not set up: {problem}")
        return None
    return editor


# Provenance: the versions and settings that the results of a run depend on.


def record_provenance(run: Run, editor: Editor) -> None:
    """Save the provenance of a new run, or what has changed since in a continued run."""
    now = provenance_of(run, editor)
    if not run.started_at:
        Run.objects.filter(pk=run.pk).update(started_at=Now(), provenance=now)
        return
    with transaction.atomic():
        row = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
        later = row.provenance.setdefault("later", [])
        recorded = row.provenance | (later[-1] if later else {})
        changed = {name: value for name, value in now.items() if recorded.get(name) != value}
        if changed:
            later.append(changed)
            row.save(update_fields=["provenance"])


def provenance_of(run: Run, editor: Editor) -> dict[str, Any]:
    """Return the settings and versions that affect the answers, without secrets."""
    model, suite = run.editing_model, run.suite
    arm = {"arm": run.arm} if run.arm_digest else {}
    return arm | {
        "suite": {
            "slug": suite.slug,
            "version": suite.version,
            "content_hash": suite.content_hash,
        },
        "model": {"slug": model.slug, "editor": model.editor, **editor.describe()},
        # Options themselves may be private; a keyed digest still shows that they changed.
        "options_digest": salted_hmac(
            "leaderboard.options", json.dumps(model.options, sort_keys=True), algorithm="sha256"
        ).hexdigest()[:32],
        "secret_sha256": commitment(run.secret),
        "max_in_flight": model.max_in_flight,
        "code": code_version(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": package_versions(PACKAGES),
    }


@cache
def code_version() -> dict[str, str]:
    """Return the package's version, and the commit of a checkout."""
    root = Path(__file__).resolve().parents[2]
    versions = {"version": __version__}
    if (root / ".git").exists():
        try:
            commit = subprocess.run(  # noqa: S603
                ["git", "-C", str(root), "rev-parse", "HEAD"],  # noqa: S607
                capture_output=True,
                text=True,
                timeout=5,
                check=True,
            )
            versions["commit"] = commit.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass
    return versions
