"""A run folder becomes a bundle that others can recompute."""

import json
import shutil
import zipfile

import pytest
from convergebench import PlayOptions, Refused, ScoreOptions, evaluate, suite
from PIL import Image, ImageOps

from evaluation.__main__ import main
from evaluation.bundle import document as bundles
from evaluation.bundle.checks import DIFFERENT, NOT_CHECKED
from evaluation.bundle.verify import verify

FEW = {
    "play": PlayOptions(secret="5" * 64),
    "score": ScoreOptions(metrics=["psnr", "ssim", "piqe"]),
}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Three chains: complete, with a refused backward edit, with a blank answer."""
    folder = tmp_path_factory.mktemp("runs") / "mine"

    def edit(image, prompt, seed):
        edit.asked += 1
        if "upside down" in prompt and edit.asked > 2:
            raise Refused("not twice")
        if "negative" in prompt.lower():
            return Image.new("RGB", image.size, "grey")
        return ImageOps.flip(image)

    edit.asked = 0
    cases = ["desert--flip-vertical", "fruit--flip-horizontal", "toys--negative"]
    return evaluate(edit, suite("smoke", trips=2, cases=cases), out=folder, **FEW).folder


@pytest.fixture
def somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(played, somewhere):
    """A copy of the run that a test may change."""
    return shutil.copytree(played, somewhere / "mine")


def said(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_every_number_of_a_bundle_from_the_shell_is_recomputed(run, capsys):
    code, out, _ = said(capsys, "bundle", run, "--out", "mine.zip", "--json")
    assert code == 0
    told = json.loads(out)
    assert (told["bundle"], told["chains"], told["whole_suite"]) == ("mine.zip", 3, False)
    with bundles.read(run.parent / "mine.zip") as bundle:
        checks = list(verify(bundle))
        document = bundle.document
    assert [str(c) for c in checks if c.verdict in (DIFFERENT, NOT_CHECKED)] == []
    assert told["digest"] == document.digest
    assert {chain.outcome for chain in document.chains} >= {"completed", "blank"}
    assert document.run.secret == "5" * 64
    assert document.run.calls == len((run / "calls.jsonl").read_text().splitlines())


def test_the_same_run_gives_the_same_bytes_and_no_path_of_this_machine(run, capsys):
    for name in ("a.zip", "b.zip"):
        assert said(capsys, "bundle", run, "--out", name)[0] == 0
    one, other = (run.parent / name for name in ("a.zip", "b.zip"))
    assert one.read_bytes() == other.read_bytes()
    with zipfile.ZipFile(one) as archive:
        assert str(run.parent) not in archive.read(bundles.DOCUMENT).decode()
    assert sorted(p.name for p in run.parent.iterdir()) == ["a.zip", "b.zip", "mine"]


def test_a_run_folder_is_verified_too_and_a_changed_score_is_named(run, capsys):
    assert said(capsys, "verify", run, "--quiet")[0] == 0
    file = run / "scores.json"
    scores = json.loads(file.read_text())
    scores["chains"]["fruit--flip-horizontal"]["distances"]["ssim"][0] *= 0.5
    file.write_text(json.dumps(scores))
    code, out, _ = said(capsys, "verify", run, "--quiet")
    assert code == 1
    assert "different    fruit--flip-horizontal, trip 1, ssim" in out


def test_a_changed_image_is_refused_by_its_name(run, capsys):
    file = run / "chains/fruit--flip-horizontal/I1_forward.png"
    Image.new("RGB", (8, 8)).save(file)
    code, _, err = said(capsys, "bundle", run)
    assert code == 1
    assert "I1_forward.png was changed" in err
    assert not (run.parent / "mine.zip").exists()


def test_an_unfinished_or_unscored_run_is_not_packed(run, capsys):
    (run / "scores.json").unlink()
    assert "is not scored yet: run convergebench score" in said(capsys, "bundle", run)[2]
    code, _, err = said(capsys, "bundle", "nowhere")
    assert (code, "there is no folder" in err) == (1, True)


def test_an_incomplete_run_reports_how_many_chains_are_missing(somewhere, capsys):
    arguments = ["--editor", "noop", "--suite", "smoke", "--trips", "1", "--limit", "2"]
    arguments += ["--max-edits", "3", "--parallel", "1", "--out", "part"]
    assert main(["run", "--play-only", *arguments]) == 3
    assert main(["score", "part", "--metrics", "psnr"]) == 0
    code, _, err = said(capsys, "bundle", "part")
    assert code == 1
    assert "of 2 chains are still to be played" in err


def test_a_bundle_has_no_address_and_no_key_of_an_endpoint(run, capsys):
    file = run / "run.json"
    header = json.loads(file.read_text())
    header["options"] = {"url": "http://inside.example/v1", "extra": {"a": 1}, "steps": 4}
    header["provenance"]["editor"] = {"host": "inside.example", "contract": "openai-edits"}
    file.write_text(json.dumps(header))
    assert said(capsys, "bundle", run)[0] == 0
    with zipfile.ZipFile(run.parent / "mine.zip") as archive:
        text = archive.read(bundles.DOCUMENT).decode()
    assert "inside.example" not in text
    assert json.loads(text)["model"]["options"] == {"steps": 4}
