"""Several models, several machines, parts of a suite, and all steps in one command."""

import json
from pathlib import Path

import pytest

from evaluation.__main__ import main
from evaluation.cli import editors
from evaluation.play import calibration_cache
from evaluation.play.run_folder import RunFolder

PLAY = ["run", "--play-only"]

# Two cases that no witness covers.
PART = ["--suite", "smoke", "--trips", "1", "--cases", "desert--*,flip-horizontal"]
FAST = ["--metrics", "psnr"]
SECRET = "ab" * 32


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def output(capsys):
    return json.loads(capsys.readouterr().out)


# Parts of a suite.


def test_cases_are_chosen_by_their_name_their_image_or_their_pair(capsys):
    assert main([*PLAY, "--editor", "noop", *PART, "--json"]) == 0
    assert output(capsys)["runs"][0]["chains"] == 2
    assert sorted(RunFolder.open(Path("noop-smoke")).chains) == [
        "desert--flip-vertical",
        "fruit--flip-horizontal",
    ]
    assert main([*PLAY, "--editor", "noop", *PART, "--limit", "1", "--out", "one", "--json"]) == 0
    assert output(capsys)["runs"][0]["chains"] == 1
    assert main([*PLAY, "--editor", "noop", *PART[:-1], "desert--*,horses"]) == 1
    assert "no case of smoke matches 'horses'" in capsys.readouterr().err


# Several machines.


def share(number, capsys, *more):
    play = [*PLAY, "--editor", "noise", *PART, "--shard", f"{number}/2", "--secret", SECRET]
    assert main([*play, *more]) == 0
    capsys.readouterr()
    return f"noise-smoke-{number}-of-2"


def test_shares_are_merged_into_the_run_that_one_machine_would_have_played(capsys):
    shares = [share(number, capsys) for number in (1, 2)]
    assert [RunFolder.open(Path(s)).edits_done for s in shares] == [2, 2]
    assert main(["merge", *shares, "--out", "merged", "--json"]) == 0
    assert output(capsys)["complete"]
    assert main([*PLAY, "--editor", "noise", *PART, "--secret", SECRET, "--out", "whole"]) == 0
    merged, whole = RunFolder.open(Path("merged")), RunFolder.open(Path("whole"))

    def images(run):
        return {slug: [h.sha256 for h in chain.edits] for slug, chain in run.chains.items()}

    assert images(merged) == images(whole)
    assert len(merged.calls()) == 4
    assert main(["score", "merged", *FAST]) == 0
    assert main([*PLAY, "--editor", "noise", *PART, "--secret", SECRET, "--out", "merged"]) == 0


def test_a_share_alone_can_be_continued(capsys):
    one = share(1, capsys)
    assert main(["merge", one, "--out", "part"]) == 0
    assert "1 of 2 chains" in capsys.readouterr().out
    assert main([*PLAY, "--editor", "noise", *PART, "--out", "part"]) == 0
    assert RunFolder.open(Path("part")).complete


def test_shares_of_different_runs_are_not_merged(capsys):
    one = share(1, capsys)
    play = [*PLAY, *PART, "--out"]
    assert main([*play, "other-secret", "--editor", "noise"]) == 0
    assert main([*play, "other-editor", "--editor", "noop", "--secret", SECRET]) == 0
    assert main([*play, "trips", "--editor", "noise", "--secret", SECRET, "--trips", "2"]) == 0
    for other, said in (
        ("other-secret", "differ in secret"),
        ("other-editor", "differ in editor"),
        ("trips", "different suites"),
        ("nowhere", "there is no folder"),
    ):
        assert main(["merge", one, other, "--out", "merged"]) == 1
        assert said in capsys.readouterr().err
    assert not Path("merged").exists()
    assert main(["merge", one, "--out", one]) == 1


def test_shares_need_one_secret_and_a_number_that_exists(capsys):
    play = [*PLAY, "--editor", "noop", *PART, "--shard"]
    assert main([*play, "1/2"]) == 1
    assert "--secret" in capsys.readouterr().err
    for wrong in ("0/2", "3/2", "half", "1/0"):
        with pytest.raises(SystemExit):
            main([*play, wrong])


# Several models, and all steps in one command.


def test_one_command_plays_scores_and_compares_several_models(capsys):
    run = ["run", "--models", "blank-card, oracle", *PART, "--out", "runs", *FAST]
    assert main([*run, "--json"]) == 0
    found = output(capsys)
    assert [row["run"] for row in found["ranks"]] == ["runs/oracle-smoke", "runs/blank-card-smoke"]
    assert Path(found["page"]).is_file()
    assert [r["edits"] for r in found["runs"]] == [2, 4]
    assert main(run) == 0
    assert "rank" in capsys.readouterr().out
    assert main(["report", "runs/blank-card-smoke", "runs/oracle-smoke", "--json"]) == 0
    assert [row["rank"] for row in output(capsys)["ranks"]] == [
        row["rank"] for row in found["ranks"]
    ]


def test_a_model_that_pauses_does_not_stop_the_next(capsys):
    play = [*PLAY, "--models", "noise,noop", *PART, "--max-edits", "3"]
    assert main([*play, "--json"]) == 3
    assert [r["edits"] for r in output(capsys)["runs"]] == [3, 3]
    assert main([*PLAY, "--models", "noise,noop", *PART]) == 0
    assert capsys.readouterr().out.count("2 completed") == 2


def test_no_model_is_played_if_one_name_is_wrong(capsys):
    assert main([*PLAY, "--models", "noop,jpg", *PART]) == 1
    assert "did you mean jpeg" in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_a_paused_run_is_not_scored_and_continues(capsys):
    run = ["run", "--editor", "noop", *PART, *FAST]
    assert main([*run, "--max-edits", "1"]) == 3
    assert not Path("noop-smoke/scores.json").exists()
    assert main(run) == 0
    assert Path("noop-smoke/report/index.html").is_file()
    assert "usable trips" in capsys.readouterr().out


# Options.


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("quality=300", "the option quality of jpeg should be less than or equal to 100, not 300"),
        ("quality=0", "greater than or equal to 1"),
        ("quality=high", "should be a valid integer"),
        ("qualty=3", "jpeg has no option 'qualty'; its options are: quality"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(option, said, capsys):
    assert main([*PLAY, "--editor", "jpeg", *PART, "--option", option]) == 1
    assert said in capsys.readouterr().err
    assert not Path("jpeg-smoke").exists()


@pytest.mark.parametrize(
    ("value", "parsed"),
    [(".5", 0.5), ("-.5", -0.5), ("2.", 2.0), (".5e-3", 0.0005), ("0.5", 0.5), ("2", 2)],
)
def test_an_option_may_be_any_spelling_of_a_number(value, parsed):
    assert repr(editors._options([f"factor={value}"])) == repr({"factor": parsed})


@pytest.mark.parametrize("text", [".", "1.2.3", "v.5", "..5", "-", ""])
def test_an_option_that_is_no_number_stays_text(text):
    assert editors._options([f"name={text}"]) == {"name": text}


def test_the_options_of_an_editor_are_listed_with_types_ranges_and_defaults(capsys):
    assert main(["list", "editors", "jpeg", "--json"]) == 0
    (quality,) = output(capsys)["options"]
    assert quality == {
        "name": "quality",
        "type": "integer",
        "required": False,
        "default": 75,
        "least": 1,
        "most": 100,
    }
    assert main(["list", "editors", "endpoint", "--json"]) == 0
    assert {"url", "contract", "api_key"} <= {o["name"] for o in output(capsys)["options"]}
    assert main(["list", "editors", "diffusers"]) == 0
    said = capsys.readouterr().out
    assert "checkpoint" in said
    assert said.count("required") == 2
    assert main(["list", "editors", "noise-8", "--json"]) == 0
    assert output(capsys)["options"][0]["default"] == 8
    assert main(["list", "editors", "nobody"]) == 1
    Path("own.py").write_text("class Mine:\n    def __init__(self, steps: int = 4): pass\n")
    assert main(["list", "editors", "own.py:Mine"]) == 0
    assert "steps" in capsys.readouterr().out


def test_the_options_of_every_editor_can_be_listed(capsys):
    assert main(["list", "editors", "--json"]) == 0
    for entry in output(capsys)["editors"]:
        assert main(["list", "editors", entry["name"], "--json"]) == 0
        assert isinstance(output(capsys)["options"], list)


# Calibrations are cached.


@pytest.fixture
def kept(tmp_path, monkeypatch):
    folder = tmp_path / "calibrations"
    monkeypatch.setenv("CONVERGEBENCH_CALIBRATIONS", str(folder))
    return folder


@pytest.fixture
def played(capsys):
    assert main([*PLAY, "--editor", "noise", *PART, "--out", "run"]) == 0
    return ["score", "run", "--again", "--json"]


def scores(arguments, capsys, metrics="psnr"):
    capsys.readouterr()
    assert main([*arguments, "--metrics", metrics]) == 0
    return output(capsys)["scores"]["images"]


def test_cached_calibrations_are_read_and_broken_ones_are_computed(kept, played, capsys):
    first = scores(played, capsys)
    files = sorted(kept.iterdir())
    assert len(files) == 2
    whole = files[0].read_text()
    changed = json.loads(whole)
    changed["psnr"][1]["95"] = 0.123
    files[0].write_text(json.dumps(changed))
    assert "0.123" in json.dumps(scores(played, capsys))
    for broken in ("", "[]", '{"psnr": ["x", {}]}', '{"psnr": [NaN, {}]}'):
        files[0].write_text(broken)
        assert scores(played, capsys) == first
    assert sorted(kept.iterdir()) == files


def test_other_metrics_and_other_versions_have_their_own_calibrations(
    kept, played, capsys, monkeypatch
):
    scores(played, capsys)
    scores(played, capsys, "psnr,ssim")
    assert len(list(kept.iterdir())) == 4
    monkeypatch.setattr("evaluation.metrics.psnr.Psnr.version", "another")
    scores(played, capsys)
    assert len(list(kept.iterdir())) == 6


def test_the_cache_is_limited_and_a_read_only_folder_does_no_harm(
    kept, played, capsys, monkeypatch
):
    monkeypatch.setattr(calibration_cache, "MAX_FILES", 1)
    first = scores(played, capsys)
    assert len(list(kept.iterdir())) == 1
    monkeypatch.setenv("CONVERGEBENCH_CALIBRATIONS", "/proc/nowhere")
    assert scores(played, capsys) == first
