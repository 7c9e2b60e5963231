"""A run that the shell's commands play, score and bundle, on a suite of the site's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evaluation.__main__ import main
from evaluation.content.chain_files import SOURCE
from evaluation.editors import load_editor
from evaluation.play.folder_store import folder_player
from evaluation.play.retries import Limits
from evaluation.play.run_folder import RunFolder
from leaderboard.testing import factories
from leaderboard.testing.played import QUICK


def shell_bundle(folder: Path, editor: str = "jpeg", **sizes: Any) -> Path:
    """Return the bundle of a run on `factories.core_suite(**sizes)`."""
    suite, images = factories.core_suite(**sizes)
    run = RunFolder.create(folder / "mine", suite, editor=editor, options={})
    for chain in run.chains.values():
        chain_folder = run.path / "chains" / chain.slug
        chain_folder.mkdir(parents=True)
        (chain_folder / SOURCE).write_bytes(images[chain.image].png())
    run = RunFolder.open(run.path)
    with run.playing():
        folder_player(run, load_editor(editor), limits=Limits()).play()
    out = folder / "mine.zip"
    for command in (
        ["score", str(run.path), "--metrics", ",".join(QUICK)],
        ["bundle", str(run.path), "--out", str(out)],
    ):
        if main(command):
            raise AssertionError(f"convergebench {' '.join(command)} failed")
    return out
