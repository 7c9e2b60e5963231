"""Everything a run's numbers depend on, as it was when they were made."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from evaluation import __version__
from evaluation.editors.base import Editor
from leaderboard.models import Run

PACKAGES = ("numpy", "pillow", "opencv-python-headless", "scipy", "httpx2", "diffusers", "torch")


def of_playing(run: Run, editor: Editor) -> dict[str, Any]:
    """What shapes the answers; never a secret."""
    model, suite = run.editing_model, run.suite
    return {
        "suite": {
            "slug": suite.slug,
            "version": suite.version,
            "content_hash": suite.content_hash,
        },
        "model": {"slug": model.slug, "editor": model.editor, **editor.describe()},
        "seed": run.seed,
        "max_in_flight": model.max_in_flight,
        "code": code_version(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": {name: found for name in PACKAGES if (found := package_version(name))},
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


def package_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
