"""A run folder that is raced: played in rounds, stopped when its rank is settled, and never
passed for a whole run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from evaluation.analysis.racing import Race, RaceError, rounds_of
from evaluation.bundle import format as bundles
from evaluation.bundle.checks import DIFFERENT, NOT_CHECKED
from evaluation.bundle.verification import Verification
from evaluation.cli.commands.merge import merge
from evaluation.cli.commands.report import write_report
from evaluation.cli.commands.score import scored
from evaluation.cli.folder_store import FolderPlayer, folder_player
from evaluation.cli.printing import CommandError
from evaluation.cli.results import ranks
from evaluation.cli.run_bundle import write_bundle
from evaluation.cli.run_folder import RunFolder, RunFolderError
from evaluation.cli.run_scores import read_scores
from evaluation.cli.stopping.raced_run import (
    RacedRun,
    asked_race,
    begin_race,
    parse_race,
    race_saved,
    race_told,
)
from evaluation.cli.stopping.rivals import Headline, Rivals
from evaluation.editors import load_editor
from evaluation.measuring.scoring import Scorer
from evaluation.play.store import Paused
from evaluation.testing.simulations.race_suite import race_suite

METRICS = ["ssim"]
SUITE = race_suite()
OUT = Race("top", 1, rounds=4)


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    return Scorer(METRICS, witnesses=[])


def a_run(path: Path, sigma: float) -> RunFolder:
    return RunFolder.create(
        path, SUITE, editor="noise", options={"sigma": sigma}, secret=f"{sigma:064.0f}"
    )


def player(folder: RunFolder, **options: object) -> FolderPlayer:
    return folder_player(folder, load_editor("noise", **folder.header["options"]), **options)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory, scorer: Scorer) -> list[Path]:
    """Three whole, scored runs of falling strength; the last one as a bundle."""
    found = []
    for sigma in (2, 10, 25):
        folder = a_run(tmp_path_factory.mktemp("others") / f"noise-{sigma}", sigma)
        with folder.playing():
            player(folder).play()
        scores = scored(folder, scorer)
        found.append(folder.path)
    write_bundle(folder, scores, folder.path.with_suffix(".zip"), pictures=False)
    return [*found[:2], found[2].with_suffix(".zip")]


@pytest.fixture(scope="module")
def rivals(others: list[Path], scorer: Scorer) -> Rivals:
    return Rivals.of(others, SUITE, Headline.of(scorer))


def raced(path: Path, rivals: Rivals, sigma: float, race: Race = OUT) -> RunFolder:
    folder = a_run(path, sigma)
    begin_race(folder, race, rivals)
    return folder


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, rivals: Rivals, scorer: Scorer) -> RunFolder:
    """A run that is far worse than all others."""
    folder = raced(tmp_path_factory.mktemp("raced") / "out", rivals, 150)
    with folder.playing():
        RacedRun(player(folder), scorer).play()
    return RunFolder.open(folder.path)


def test_it_stops_when_its_rank_is_settled_with_the_cases_of_its_rounds(out: RunFolder) -> None:
    looks = out.header["race_looks"]
    assert looks[-1]["settled"] == "not in the top 1"
    assert (looks[-1]["low"], looks[-1]["high"], looks[-1]["runs"]) == (4, 4, 3)
    last = looks[-1]["round"]
    assert last < OUT.rounds
    cases = [(c.slug, SUITE.pair_by_slug[c.pair].category) for c in SUITE.cases]
    dealt = rounds_of(cases, OUT.rounds, out.secret)
    assert {c.case for c in out.chains.values()} == {s for s, n in dealt.items() if n <= last}
    assert out.complete
    assert race_saved(out) == 2 * SUITE.trips * (len(SUITE.cases) - len(out.chains)) > 0


def test_it_says_so_wherever_it_is_shown_and_is_not_ranked(
    out: RunFolder, others: list[Path], tmp_path: Path
) -> None:
    words = (
        f"raced, stopped after round {out.header['race_looks'][-1]['round']} of 4: not in the top 1"
    )
    assert out.race_ended.startswith(words)
    whole = RunFolder.open(others[0])
    board = ranks(SUITE, {"whole": read_scores(whole), "raced": read_scores(out)})
    assert [(row["run"], row["rank"]) for row in board] == [("whole", 1), ("raced", None)]
    told = race_told(out)
    assert (told["stopped"], told["saved_edits"]) == (True, race_saved(out))
    page = write_report([out], [read_scores(out)], tmp_path).read_text()
    assert words in page


def test_its_bundle_carries_the_race_and_is_verified(out: RunFolder, tmp_path: Path) -> None:
    path = tmp_path / "out.zip"
    write_bundle(out, read_scores(out), path)
    with bundles.read(path) as bundle:
        run = bundle.document.run
        assert (run.race_stopped, run.race.goal, run.race.rounds) == (True, "top", 4)
        found = list(Verification(bundle).checks())
    assert [c for c in found if c.verdict == DIFFERENT] == []
    assert [c.what for c in found if c.verdict == NOT_CHECKED and "look" in c.line] == ["ranks"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda run: run["race_looks"][-1].update(usable_trips=1.9), "numbers"),
        (lambda run: run["race_looks"][-1].update(alpha=0.04), "what its looks may err by"),
        (lambda run: run.update(race_stopped=False), "whether the race ended early"),
        (lambda run: run["race_looks"][-1].update(low=1, high=4), "what its looks settle"),
        (lambda run: run["race_looks"].pop(), "cases of the rounds that it played"),
        (lambda run: run["race_looks"][-1].update(low=9, high=2), "race"),
        (lambda run: [run.pop("race")], "race"),
    ],
)
def test_a_bundle_cannot_claim_another_race(out, tmp_path, change, what) -> None:
    path = tmp_path / "out.zip"
    document = write_bundle(out, read_scores(out), path, pictures=False)
    change(document["run"])
    bundles.write(path, bundles.sealed(document))
    with bundles.read(path) as bundle:
        found = {c.what for c in Verification(bundle).checks() if c.verdict == DIFFERENT}
    assert what in found


def test_a_race_goes_on_where_it_was_stopped_and_ends_the_same(
    out: RunFolder, rivals: Rivals, scorer: Scorer, tmp_path: Path
) -> None:
    folder = raced(tmp_path / "again", rivals, 150)
    for most in (20, 61, 10_000):
        folder = RunFolder.open(folder.path)
        with folder.playing():
            try:
                RacedRun(player(folder, max_edits=most), scorer).play()
            except Paused:
                continue
    again = RunFolder.open(folder.path)
    assert again.header["race_looks"] == out.header["race_looks"]
    assert len(again.calls()) == again.edits_done == out.edits_done


def test_a_race_that_settles_nothing_is_a_run_like_any_other(
    rivals: Rivals, scorer: Scorer, tmp_path: Path
) -> None:
    folder = raced(tmp_path / "beside", rivals, 10, Race("top", 2, rounds=2))
    with folder.playing():
        RacedRun(player(folder), scorer).play()
    assert (folder.race_ended, len(folder.chains)) == ("", len(SUITE.cases))
    assert [look["settled"] for look in folder.header["race_looks"]] == [""]
    scored(folder, scorer)
    board = ranks(SUITE, {"run": read_scores(folder)})
    assert board[0]["rank"] == 1


def test_whom_it_cannot_be_raced_against(
    out: RunFolder, others: list[Path], scorer: Scorer, tmp_path: Path
) -> None:
    headline = Headline.of(scorer)
    with pytest.raises(CommandError, match="is not ranked, so nobody is raced against it: raced"):
        Rivals.of([out.path], SUITE, headline)
    a_run(tmp_path / "unplayed", 3)
    with pytest.raises(CommandError, match="not played to its end and scored"):
        Rivals.of([tmp_path / "unplayed"], SUITE, headline)
    with pytest.raises(CommandError, match="is of the suite raced"):
        Rivals.of(others, race_suite(trips=3), headline)
    with pytest.raises(CommandError, match="was not scored by ssim"):
        Rivals.of(others, SUITE, Headline("ssim", "another", ""))
    with pytest.raises(CommandError, match="shares of one"):
        merge([out], tmp_path / "merged")


def test_a_race_keeps_what_it_was_begun_as(out, rivals, others, scorer, tmp_path) -> None:
    with pytest.raises(CommandError, match="is a run that is raced in 4 rounds"):
        begin_race(out, Race("width", 2), rivals)
    fewer = Rivals.of(others[:1], SUITE, Headline.of(scorer))
    with pytest.raises(CommandError, match="raced against other runs"):
        begin_race(out, OUT, fewer)
    begin_race(out, OUT, None)
    with pytest.raises(CommandError, match="with --against"):
        begin_race(a_run(tmp_path / "new", 1), OUT, None)


@pytest.mark.parametrize(
    "text", ["top", "top:", "top:0", "best:3", "width:9999999", "top:-1", "top:²"]
)
def test_what_is_no_race_is_refused(text: str) -> None:
    with pytest.raises(RaceError):
        parse_race(text, 8)


def test_a_race_is_of_one_whole_run() -> None:
    args = argparse.Namespace(race="top:3", against=[], rounds=8, shard="1/2", floor=False)
    with pytest.raises(CommandError, match="--shard"):
        asked_race(args, SUITE)
    args = argparse.Namespace(race=None, against=[Path("x")], rounds=8, shard=None, floor=False)
    with pytest.raises(CommandError, match="--race top:3"):
        asked_race(args, SUITE)


@pytest.mark.parametrize(
    "looks", [7, [{}], [{"round": 1}], [{"round": 9, "alpha": 0.01, "runs": 3, "cases": 4,
    "usable_trips": 1.0, "interval": None, "low": 1, "high": 2}]],
)  # fmt: skip
def test_a_folder_whose_looks_are_none_is_refused(out, tmp_path, looks) -> None:
    header = json.loads((out.path / "run.json").read_text()) | {"race_looks": looks}
    (tmp_path / "run.json").write_text(json.dumps(header))
    with pytest.raises(RunFolderError, match="look"):
        RunFolder.open(tmp_path)
