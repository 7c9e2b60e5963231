"""Everything a run's numbers depend on, as it was when they were made."""

from __future__ import annotations

import json
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac

from evaluation import __version__
from evaluation.editors.base import Editor
from evaluation.packages import package_versions
from evaluation.run_secret import commitment
from leaderboard.models import Run

PACKAGES = ("numpy", "pillow", "opencv-python-headless", "scipy", "httpx2", "diffusers", "torch")


def record(run: Run, editor: Editor) -> None:
    """Write down what a run begins with; of one that goes on, what is another by now."""
    now = of_playing(run, editor)
    if not run.started_at:
        Run.objects.filter(pk=run.pk).update(started_at=Now(), provenance=now)
        return
    with transaction.atomic():
        row = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
        later = row.provenance.setdefault("later", [])
        known = row.provenance | (later[-1] if later else {})
        changed = {name: value for name, value in now.items() if known.get(name) != value}
        if changed:
            later.append(changed)
            row.save(update_fields=["provenance"])


def of_playing(run: Run, editor: Editor) -> dict[str, Any]:
    """What shapes the answers; never a secret."""
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
    """The package's version, and the commit where this is a checkout."""
    root = Path(__file__).resolve().parents[2]
    found = {"version": __version__}
    if (root / ".git").exists():
        try:
            commit = subprocess.run(  # noqa: S603
                ["git", "-C", str(root), "rev-parse", "HEAD"],  # noqa: S607
                capture_output=True,
                text=True,
                timeout=5,
                check=True,
            )
            found["commit"] = commit.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass
    return found
