"""A run folder whose chains are stopped when their result is known."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from evaluation.cli.results import results_table, run_results
from evaluation.cli.scoring import update_scores
from evaluation.content import catalog
from evaluation.content.suites import Case
from evaluation.editors import load_editor
from evaluation.measuring.scoring import Scorer
from evaluation.play.folder_store import folder_player, play_in_rounds, saved_edits
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import read_scores
from evaluation.play.store import Paused

SMOKE = catalog.suite("smoke")
SUITE = dataclasses.replace(
    SMOKE,
    trips=8,
    cases=tuple(Case("books", pair) for pair in ("flip-horizontal", "flip-vertical")),
)
METRICS = ["psnr", "ssim"]
K = 2


def a_run(path: Path, stop_after: int = K) -> RunFolder:
    folder = RunFolder.create(path, SUITE, editor="noise", options={}, secret="5" * 64)
    folder.header.stop_after = stop_after
    folder.save()
    return folder


def play(folder: RunFolder, **options: object) -> None:
    player = folder_player(folder, load_editor("noise", sigma=60.0), **options)
    with folder.playing():
        if folder.header.stop_after:
            play_in_rounds(player, Scorer(METRICS))
        else:
            player.play()


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = a_run(tmp_path_factory.mktemp("full") / "run", 0)
    play(folder)
    update_scores(folder, Scorer(METRICS))
    return folder


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = a_run(tmp_path_factory.mktemp("short") / "run")
    play(folder)
    return folder


def numbers(folder: RunFolder) -> dict[str, object]:
    result = next(iter(run_results(SUITE, read_scores(folder)).values()))
    wanted = ("usable_trips", "half_life", "survival", "incidence", "causes")
    return {name: getattr(result.summary, name) for name in wanted} | {"events": result.events}


def test_the_headline_is_that_of_the_full_run_for_fewer_edits(full, short):
    assert numbers(short) == numbers(full)
    assert {chain.outcome for chain in short.chains.values()} == {"known"}
    assert 0 < saved_edits(short) == full.edits_done - short.edits_done
    assert saved_edits(full) == 0


def test_trips_that_were_played_have_the_scores_of_the_full_run(full, short):
    whole, part = read_scores(full), read_scores(short)
    for slug, chain in part.chains.items():
        count = len(chain.restored)
        assert chain.restored == whole.chains[slug].restored[:count]
        for name, values in chain.distances.items():
            assert values == whole.chains[slug].distances[name][:count]
        assert chain.trips == whole.chains[slug].trips[:count]


def test_a_summary_names_what_is_unknown(short):
    table = results_table(run_results(SUITE, read_scores(short)))
    assert "stopped once their result was known" in table
    headline = table.splitlines()[2]
    assert headline.split()[-1] == "-", "what is kept after N trips nobody has seen"


def test_a_run_that_pauses_goes_on_and_ends_the_same(short, tmp_path: Path):
    folder = a_run(tmp_path / "run")
    for most in (3, 7, 100):
        try:
            play(RunFolder.open(folder.path), max_edits=most)
        except Paused:
            continue
    again = RunFolder.open(folder.path)
    assert numbers(again) == numbers(short)
    assert [len(chain.edits) for chain in again.chains.values()] == [
        len(chain.edits) for chain in short.chains.values()
    ]


def test_an_exact_editor_is_not_asked_again_and_again(tmp_path: Path):
    folder = a_run(tmp_path / "run")
    player = folder_player(folder, load_editor("oracle"))
    with folder.playing():
        play_in_rounds(player, Scorer(METRICS))
    assert {(c.outcome, len(c.trips)) for c in folder.chains.values()} == {("converged", K + 1)}
    summary = next(iter(run_results(SUITE, read_scores(folder)).values())).summary
    assert summary.usable_trips == SUITE.trips
    assert None not in summary.curve
