"""`convergebench experiment`: from a file to a page, with interruptions and errors."""

from __future__ import annotations

import json

import pytest

from evaluation.__main__ import main
from evaluation.play.run_folder import RunFolder
from evaluation.testing.json_outputs import checked

FILE = """\
title: Does the wording matter?
question: Do longer prompts <b>keep</b> more?
suite: smoke
models: [misreader]
trips: 1
cases: "*--flip-*,*--rotate-*"
repeats: 2
arms:
  plain: {}
  long: {wording: long, also: Take care of each and every little part of the image please.}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "wording.yaml"
    path.write_text(FILE)
    return path


def test_an_experiment_is_estimated_played_in_pieces_scored_and_reported(file, tmp_path, capsys):
    out = tmp_path / "runs"
    run = ["experiment", str(file), "--out", str(out), "--metrics", "ssim,psnr"]
    assert main([*run, "--estimate"]) == 0
    assert "total:" in capsys.readouterr().err
    assert main([*run, "--estimate", "--json"]) == 0
    assert checked("experiment-estimate", capsys.readouterr().out)["edits"] > 0
    assert not out.exists()
    assert main([*run, "--max-edits", "3", "--parallel", "1"]) == 3
    first = RunFolder.open(out / "misreader" / "plain")
    assert first.edits_done == 3
    assert main([*run, "--json"]) == 0
    output = checked("experiment", capsys.readouterr().out)
    del output["schema"]
    assert RunFolder.open(out / "misreader" / "plain").secret == first.secret
    calls = RunFolder.open(out / "misreader" / "plain").calls()
    assert len(calls) == 3 * 2 * 2  # cases, repeats, edits: no edit is played twice
    model = output["models"][0]
    plain, long = model["metrics"]["ssim"]["effects"]
    assert (plain["arm"], long["arm"]) == ("plain", "long")
    assert long["difference"] < 0
    folder = RunFolder.open(out / "misreader" / "long")
    understood = {
        edit.notes["understood"] for chain in folder.chains.values() for edit in chain.edits
    }
    assert understood == {"keep"}
    assert folder.header.arm.wording == "long"
    assert model["metrics"]["ssim"]["reruns"]["plain"]["repeats"] == 2
    page = (out / "misreader" / "report" / "index.html").read_text()
    assert "Effect of each arm" in page
    assert "&lt;b&gt;keep&lt;/b&gt;" in page
    assert json.loads((out / "experiment.json").read_text()) == output
    # Another setting is another run: nothing is mixed.
    file.write_text(FILE.replace("wording: long", "wording: LF"))
    assert main(run) == 1
    assert "is a run with the settings" in capsys.readouterr().err


def test_an_experiment_that_cannot_be_played_is_refused_before_any_edit(file, tmp_path, capsys):
    for change, words in (
        (
            "long: {temperature: 1.0, ",
            "misreader cannot play the arm long: Misreader has no temperature",
        ),
        ("long: {session: conversation, ", "has no conversations"),
        ("long: {colour: 1, ", "arms.long.colour"),
    ):
        file.write_text(FILE.replace("long: {", change))
        assert main(["experiment", str(file), "--out", str(tmp_path / "runs")]) == 1
        error = capsys.readouterr().err
        assert words in error or words.replace("misreader", "Misreads long prompts") in error
    assert not (tmp_path / "runs").exists()
