"""A run of the site that somebody plays again in the shell gives the same pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evaluation.editors import load_editor
from evaluation.play.folder_store import folder_player
from evaluation.play.run_folder import RunFolder
from evaluation.run_secret import new_secret
from leaderboard import jobs
from leaderboard.content.loading import store_suite
from leaderboard.models import Trip
from leaderboard.testing import factories

SECRET = new_secret()


@pytest.mark.django_db
def test_the_same_case_and_secret_give_the_same_bytes_in_the_shell_and_on_the_site(tmp_path: Path):
    suite, pictures = factories.core_suite(2, (factories.FLIP,), trips=2, repeats=2)
    options: dict[str, Any] = {"sigma": 9}
    run = jobs.start(
        factories.editing_model("noise", "noise", options=options),
        store_suite(suite, pictures),
        secret=SECRET,
    )
    jobs.play(run.pk)
    on_site = {
        (trip.chain.case.slug, trip.chain.repeat, trip.number, direction): half.sha256
        for trip in Trip.objects.select_related("chain__case", "edited", "restored")
        for direction, half in (("forward", trip.edited), ("backward", trip.restored))
        if half
    }

    folder = RunFolder.create(
        tmp_path / "run", suite, editor="noise", options=options, secret=SECRET
    )
    for chain in folder.chains.values():
        file = tmp_path / "run/chains" / chain.slug / "I0_source.png"
        file.parent.mkdir(parents=True)
        file.write_bytes(pictures[chain.picture].data)
    with folder.playing():
        folder_player(folder, load_editor("noise", **options)).play()
    in_shell = {
        (chain.case, chain.repeat, half.number, half.direction): half.sha256
        for chain in folder.chains.values()
        for half in chain.halves
    }

    assert in_shell == on_site
    assert len(on_site) == len(set(on_site.values())) == 2 * 2 * 2 * 2
