"""The command that counts how often the witnesses err."""

import json
from dataclasses import replace

import pytest

from evaluation.__main__ import main
from evaluation.content import catalog
from evaluation.images import Picture
from evaluation.metrics import load_metric
from evaluation.testing.json_outputs import checked
from evaluation.tests.witnesses.test_parsing import SOURCE, wearing_glasses
from evaluation.witnesses import load_witness


@pytest.fixture
def chains(tmp_path):
    """A chain in which glasses came and went, and one in which nothing was done."""
    for witness in (load_witness("parsing"), load_metric("identity")):
        if missing := witness.missing():
            pytest.skip("; ".join(missing))
    for name, edited in (("honest", wearing_glasses(SOURCE)), ("idle", SOURCE)):
        (tmp_path / name).mkdir()
        for file, image in (("I0_source", SOURCE), ("I1_forward", edited), ("I1_backward", SOURCE)):
            data = Picture.from_image(image).data
            (tmp_path / name / f"{file}.png").write_bytes(data)
    return tmp_path


def told(capsys, *arguments):
    assert main(["witness-errors", *map(str, arguments), "--object", "glasses", "--json"]) == 0
    data = checked("witness-errors", capsys.readouterr().out)
    return {(row["of"], row["what"]): row for row in data["rows"]}


def test_what_is_right_and_what_is_wrong_is_counted(chains, capsys):
    honest, idle = chains / "honest", chains / "idle"
    right = told(capsys, honest, "--not-made", idle, "--witness", "parsing")
    assert {key: (row["seen"], row["wrong"]) for key, row in right.items()} == {
        ("parsing", "glasses made, honest"): (1, []),
        ("parsing", "glasses undone, honest"): (1, []),
        ("parsing", "glasses made, idle"): (0, []),
    }
    wrong = told(capsys, idle, "--not-made", honest, "--witness", "parsing")
    assert wrong["parsing", "glasses made, idle"]["wrong"] == ["idle 1"]
    assert wrong["parsing", "glasses made, honest"]["wrong"] == ["honest 1"]


def test_the_table_is_printed_in_words(chains, capsys):
    assert main(["witness-errors", str(chains / "honest"), "--object", "glasses"]) == 0
    assert "glasses undone, honest" in capsys.readouterr().out


def test_a_chain_that_is_scored_says_what_witnesses_saw(chains, capsys):
    arguments = [
        "score-chain",
        str(chains / "idle"),
        "--object",
        "glasses",
        "--metrics",
        "psnr,identity",
    ]
    assert main([*arguments, "--no-report", "--json"]) == 0
    (trip,) = json.loads(capsys.readouterr().out)["trips"]
    heard = {one["witness"]: one for one in trip["evidence"]}
    assert (heard["parsing"]["thing"], heard["parsing"]["made"]) == ("glasses", False)
    assert heard["identity"]["kept"] is True


def test_a_suites_own_drawings_are_judged_beside_a_red_ball(monkeypatch, capsys):
    smoke = catalog.suite("smoke")
    colours = [case for case in smoke.cases if smoke.pair_by_slug[case.pair].witness[:4] == "hue:"]
    few = replace(smoke, cases=tuple(colours[:1]))
    monkeypatch.setattr("evaluation.cli.commands.witness_errors.find_suite", lambda name: few)
    assert main(["witness-errors", "--suite", "smoke", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["of"] for row in rows} == {"hue"}
    # Five kinds of wear: a red ball instead, and an edit that was left on.
    assert [row["should_be_seen"] for row in rows].count(False) == 10
    assert all(row["wrong"] == [] for row in rows)
