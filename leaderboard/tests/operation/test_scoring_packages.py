"""Preparation of scoring in the background: what pages report, and failures."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from leaderboard.models.runs import RunState
from leaderboard.operation.scoring_packages import (
    Preparation,
    Stage,
    read_stage,
    save_stage,
    wait_until_ready,
)
from leaderboard.pages import run_page
from leaderboard.testing.boards import make_run, make_suite

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def state(settings, tmp_path):
    settings.SCORING_STATE = str(tmp_path / "scoring.json")
    return Path(settings.SCORING_STATE)


def test_without_preparation_nothing_is_shown_or_waited_for(settings):
    settings.SCORING_STATE = ""
    save_stage(Stage.INSTALLING)
    assert read_stage() is None
    wait_until_ready()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"stage": "other", "detail": ""}', "\0"])
def test_an_invalid_state_file_blocks_nothing(state, content):
    state.write_text(content)
    assert read_stage() is None
    wait_until_ready()


def test_a_worker_waits_until_scoring_is_ready_even_after_a_failure(state):
    save_stage(Stage.FAILED, "no room")
    waiting = threading.Thread(target=wait_until_ready, args=(0.01,))
    waiting.start()
    time.sleep(0.1)
    assert waiting.is_alive()
    save_stage(Stage.READY)
    waiting.join(5)
    assert not waiting.is_alive()
    assert [path.name for path in state.parent.iterdir()] == [state.name]


@pytest.mark.django_db
def test_the_board_shows_the_installation_until_it_is_complete(client, state):
    make_run("First", make_suite(images=2), 4, rank=1)
    save_stage(Stage.CHECKING)
    quiet = client.get("/").content.decode()
    assert "scoring packages" not in quiet
    save_stage(Stage.INSTALLING, "57 packages so far, now torch")
    assert "Installing the scoring packages: 57 packages so far, now torch." in (
        client.get("/").content.decode()
    )
    save_stage(Stage.READY)
    assert client.get("/").content.decode() == quiet


@pytest.mark.django_db
def test_only_staff_sees_the_reason_of_a_failed_installation(client, admin_client, state):
    make_suite(images=2)
    save_stage(Stage.FAILED, "No space left on device in /srv/secret-place")
    page = client.get("/").content.decode()
    assert "Nothing is scored at the moment" in page
    assert "secret-place" not in page
    assert "No space left on device in /srv/secret-place" in admin_client.get("/").content.decode()
    assert "secret-place" not in client.get("/").content.decode()


@pytest.mark.django_db
def test_a_run_that_waits_for_scoring_shows_it(state):
    run = make_run("First", make_suite(images=2), 4)
    run.state = RunState.SCORING
    save_stage(Stage.INSTALLING)
    assert "Scoring starts when its packages are installed" in run_page.now(run)
    save_stage(Stage.READY)
    assert "are being scored" in run_page.now(run)


def prepare(
    tmp_path: Path, pip: str
) -> tuple[subprocess.CompletedProcess[str], Preparation | None]:
    """Run `prepare_scoring` with this shell line as make; return its result and stage."""
    make = tmp_path / "make"
    make.write_text(f"#!/bin/sh\n{pip}\n")
    make.chmod(0o700)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "DATA_DIR": str(tmp_path),
        "SCORING_STATE": str(tmp_path / "scoring.json"),
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "prepare_scoring", "--install", "stamp"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
    )
    return done, read_stage()


def test_a_failed_installation_reports_the_reason_and_the_fix(tmp_path, state):
    done, preparation = prepare(
        tmp_path, "echo Collecting torch; echo ERROR: No space left on device >&2; exit 2"
    )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "run `make up` again" in done.stderr
    assert "Traceback" not in done.stderr
    assert preparation is not None
    assert preparation.stage is Stage.FAILED
    assert preparation.detail.startswith("ERROR: No space left on device")
    assert "Collecting torch" in (tmp_path / "scoring_packages.log").read_text()


def test_a_package_of_an_interrupted_installation_is_installed_again(tmp_path):
    """pip writes INSTALLER last, so a package without it is incomplete."""
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    whole, half = packages / "whole-1.dist-info", packages / "half-1.dist-info"
    for folder in (whole, half):
        folder.mkdir(parents=True)
        (folder / "METADATA").touch()
    (whole / "INSTALLER").touch()
    recipe = subprocess.run(
        ["make", "--dry-run", "--always-make", f"VENV={tmp_path}", f"{tmp_path}/.worker"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    ).stdout
    lines = [line for line in recipe.splitlines() if "INSTALLER" in line]
    assert len(lines) == 2
    subprocess.run(["sh", "-c", lines[0]], cwd=ROOT, check=True)
    assert (whole.exists(), half.exists()) == (True, False)
