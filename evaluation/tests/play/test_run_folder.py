"""Untrusted run folders: nothing outside them is read or written, and no fault is a crash."""

import json
import shutil

import pytest
from PIL import Image

from evaluation.__main__ import main
from evaluation.content.chain_files import SOURCE
from evaluation.play.run_folder import RunFolder

CHAIN = "desert--flip-vertical"


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "mine"
    play = ["run", "--play-only", "--editor", "noise", "--suite", "smoke", "--trips", "1"]
    assert main([*play, "--cases", CHAIN, "--out", str(folder)]) == 0
    assert main(["score", str(folder), "--metrics", "psnr"]) == 0
    return folder


@pytest.fixture
def run(played, tmp_path, monkeypatch):
    """A copy of the run that a test may break."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(played, tmp_path / "mine")


def changed(file, change):
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def refused(capsys, *arguments):
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 1
    return capsys.readouterr().err


@pytest.mark.parametrize("command", [["merge", "--out", "out"], ["bundle"], ["report"]])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["suite"]["images"][0].update(slug="../../../out"), "images.0.slug"),
        (lambda d: d["suite"].update(repeats=10**12), "repeats"),
        (lambda d: d.pop("editor"), "editor: Field required"),
        (lambda d: d.update(options=[]), "options: should be a valid dict"),
    ],
)
def test_a_run_file_with_foreign_paths_or_huge_numbers_is_refused(
    run, capsys, command, change, said
):
    def spoilt(data):
        data["suite"].pop("content_hash")
        change(data)

    changed(run / "run.json", spoilt)
    assert said in refused(capsys, command[0], run, *command[1:])
    assert not (run.parent / "out").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["edits"][0].update(file="/etc/hostname"), "is not the name of an image file"),
        (lambda d: d["edits"][0].update(file="../x.png"), "is not the name of an image file"),
        (lambda d: d["edits"][0].update(number="one"), "edits"),
        (lambda d: d["edits"][0].update(surprise=1), "surprise"),
        (lambda d: d.update(edits=3), "chain.json"),
        (lambda d: d.update(image="../../x"), "belongs to another chain"),
        (
            lambda d: d.update(
                audits=[
                    {
                        "number": 1,
                        "kind": "mark",
                        "words": "",
                        "seed": 1,
                        "sent": "/etc/hostname",
                        "outcome": "failed",
                    }
                ]
            ),
            "is not the name of an image file",
        ),
    ],
)
def test_a_chain_file_with_foreign_paths_is_refused(run, capsys, change, said):
    changed(run / "chains" / CHAIN / "chain.json", change)
    assert said in refused(capsys, "bundle", run)


def test_symbolic_links_are_not_followed(run, capsys):
    """Following a link would put a private file into a bundle or merged run."""
    secret = run.parent / "secret.png"
    Image.new("RGB", (64, 64), "red").save(secret)
    for name in (SOURCE, "I1_forward.png"):
        file = run / "chains" / CHAIN / name
        kept = file.read_bytes()
        file.unlink()
        file.symlink_to(secret)
        assert "not a regular file" in refused(capsys, "merge", run, "--out", f"out-{name}")
        assert "regular file" in refused(capsys, "bundle", run)
        file.unlink()
        file.write_bytes(kept)
    assert main(["merge", str(run), "--out", "out"]) == 0


def test_invalid_lines_of_the_call_log_are_skipped(run, capsys):
    lines = ["[]", "7", '{"at": 1}', "[" * 100_000, '{"cost": 1e999}', '{"number": "one"}']
    before = RunFolder.open(run).calls()
    with (run / "calls.jsonl").open("a") as file:
        file.write("\n".join(lines))
    assert RunFolder.open(run).calls() == before != []
    assert main(["merge", str(run), "--out", "out"]) == 0


@pytest.mark.parametrize("name", ["run.json", "scores.json", f"chains/{CHAIN}/chain.json"])
@pytest.mark.parametrize("text", ["", "[" * 100_000, "[]", "null", '{"format": 3}'])
def test_an_invalid_file_is_named(run, capsys, name, text):
    (run / name).write_text(text)
    said = refused(capsys, "bundle", run)
    assert ("is not scored" if name == "scores.json" else name) in said
