"""Preparation of scoring while the site already serves pages.

`manage.py up` serves the board as soon as its own packages are installed. The packages for
scoring, over a gigabyte, are installed afterwards; then weights are fetched. The stage is stored
in a small file (SCORING_STATE), whose path `up` passes to its processes. Other deployments have
no such file.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from django.conf import settings


class Stage(StrEnum):
    CHECKING = "checking"
    INSTALLING = "installing"
    FETCHING = "fetching weights"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True)
class Preparation:
    """Stage of the preparation; `detail` names the current step or the failure."""

    stage: Stage
    detail: str = ""

    @property
    def is_shown(self) -> bool:
        """Return True if pages report this stage, because visitors wait for scores."""
        return self.stage not in (Stage.CHECKING, Stage.READY)

    @property
    def has_failed(self) -> bool:
        return self.stage is Stage.FAILED


def save_stage(stage: Stage, detail: str = "") -> None:
    """Store the stage atomically, so that readers get either the old or the new one."""
    if not settings.SCORING_STATE:
        return
    path = Path(settings.SCORING_STATE)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(asdict(Preparation(stage, detail))))
    temporary.replace(path)


def read_stage() -> Preparation | None:
    """Return the stage, or None if nothing is prepared or the file is invalid."""
    if not settings.SCORING_STATE:
        return None
    try:
        state = json.loads(Path(settings.SCORING_STATE).read_bytes())
        return Preparation(Stage(state["stage"]), str(state["detail"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def wait_until_ready(seconds_between: float = 0.5) -> None:
    """Block until scoring is ready; after a failure, until a new start has succeeded."""
    while (preparation := read_stage()) and preparation.stage is not Stage.READY:
        time.sleep(seconds_between)
