"""`convergebench run` with --audits and --endpoint: a check before submitting."""

import dataclasses
import json

import pytest

from evaluation.__main__ import main
from evaluation.audits.plan import plan
from evaluation.content import catalog
from evaluation.editors import load_editor
from evaluation.errors import EditorError, Fault
from evaluation.images import EncodedImage
from evaluation.play.folder_store import folder_player
from evaluation.play.retries import Limits
from evaluation.play.run_folder import RunFolder
from evaluation.play.store import Paused
from evaluation.testing.editing_server import EditingServer
from evaluation.testing.json_outputs import checked
from evaluation.testing.tricks import NearCache

KEYS = {
    *("verdict", "reasons", "change_seen", "edits_made", "undone", "marks_kept"),
    *("loss_under_audit", "cold_gap", "hints"),
}
SMOKE = catalog.suite("smoke")
CASES = tuple(case for case in SMOKE.cases if SMOKE.pair_by_slug[case.pair].change == "local")[:4]


@pytest.fixture
def suite_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite = dataclasses.replace(SMOKE, trips=2, cases=CASES)
    file = tmp_path / "suite.json"
    file.write_text(json.dumps(suite.to_dict()))
    return file


class Cheat(NearCache):
    """A trick that can be chosen by name."""


@pytest.mark.slow
def test_an_honest_editor_is_clean_and_every_key_is_there(suite_file, capsys):
    assert main(["run", "--audits", "--editor", "jpeg", "--suite", str(suite_file), "--json"]) == 0
    report = checked("run", capsys.readouterr().out)["runs"][0]["audit"]
    assert report.keys() == KEYS
    assert (report["verdict"], report["reasons"]) == ("clean", [])
    assert report["change_seen"] > 0.5
    for share in (report["edits_made"], report["undone"]):
        assert share is None or 0 <= share <= 1
    assert len(report["marks_kept"]["each"]) == len(report["loss_under_audit"]["each"]) == 2
    assert report["marks_kept"]["median"] == pytest.approx(1, abs=0.1)


def test_a_trick_behind_an_endpoint_gets_the_findings_of_a_site(suite_file, capsys):
    cheat = Cheat()

    def edit(image: bytes, prompt: str, seed: int) -> bytes:
        return cheat.edit(EncodedImage.from_bytes(image), prompt, seed).image.png()

    with EditingServer(latency=0.0, edit=edit) as server:
        arguments = ["run", "--audits", "--endpoint", server.url, "--contract", "huggingface"]
        arguments += ["--allow-local", "--suite", str(suite_file)]
        assert main([*arguments, "--json", "--out", "kept"]) == 1
    report = json.loads(capsys.readouterr().out)["runs"][0]["audit"]
    assert report["verdict"] == "review"
    assert "came back" in report["reasons"][0]
    assert report["marks_kept"]["median"] < 0.5


def test_an_endpoint_is_played_without_the_site_and_the_record_has_no_key(
    suite_file, capsys, monkeypatch, tmp_path
):
    monkeypatch.setenv("MY_KEY", "sk-canary")
    with EditingServer(latency=0.0) as server:
        arguments = ["run", "--play-only", "--endpoint", server.url, "--contract", "huggingface"]
        arguments += ["--allow-local", "--suite", str(suite_file), "--key-env", "MY_KEY"]
        assert main([*arguments, "--out", "run", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["runs"][0]["edits"] == len(server.calls) == 16
    assert "sk-canary" not in (tmp_path / "run/run.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--endpoint", "http://127.0.0.1:9/"], "http"),
        (["--endpoint", "https://example.com/v1", "--key-env", "NOT_SET"], "NOT_SET is not set"),
        (["--endpoint", "https://example.com/v1", "--option", "surprise=1"], "surprise"),
    ],
)
def test_an_endpoint_that_cannot_be_called_is_reported_in_words(
    arguments, message, suite_file, capsys
):
    assert main(["run", "--play-only", *arguments, "--suite", str(suite_file)]) == 1
    assert message in capsys.readouterr().err


def test_an_editor_or_an_endpoint_but_not_both(suite_file, capsys):
    with pytest.raises(SystemExit):
        main(["run", "--editor", "jpeg", "--endpoint", "https://x.org", "--suite", "smoke"])
    assert "not allowed with" in capsys.readouterr().err


def test_an_interrupted_audit_continues_and_repeats_nothing(tmp_path):
    suite = dataclasses.replace(SMOKE, trips=2, cases=CASES)
    folder = RunFolder.create(tmp_path / "run", suite, editor="noise", options={})
    audits = plan(folder.secret, suite)
    inner, calls = load_editor("noise"), []
    down = EditorError("down", fault=Fault.UNREACHABLE, permanent=True)

    class Flaky(type(inner)):
        def edit(self, image, prompt, seed=None, context=None):
            calls.append(seed)
            if len(calls) % 4 == 0:
                raise down
            return inner.edit(image, prompt, seed, context)

    while not folder.complete:
        folder = RunFolder.open(tmp_path / "run")
        try:
            with folder.playing():
                folder_player(folder, Flaky(), limits=Limits(attempts=1), audits=audits).play()
        except Paused:
            pass
    made = [audit for chain in folder.chains.values() for audit in chain.audits]
    assert len(made) == len(audits) == 2 * len(CASES)  # each has a cold audit and a touched one
    assert len(calls) - len(calls) // 4 == suite.edits + len(audits)
    assert {audit.outcome for audit in made} == {"answered"}
