"""`score` reports the measures of a chain and what ended it."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from evaluation.__main__ import main
from evaluation.analysis.events import CAUSES
from evaluation.metrics import HEADLINE, headline_parts, load_metric
from evaluation.testing.fake_providers.judge import KEY, FakeJudge

METRICS = (HEADLINE, *headline_parts(), "lpips")


@pytest.fixture
def output(hat_chain, capsys):
    if missing := load_metric("overall").missing():
        pytest.skip("; ".join(missing))
    arguments = ["score", str(hat_chain.folder), "--no-report", "--json"]
    assert main([*arguments, "--metrics", ",".join(METRICS)]) == 0
    return json.loads(capsys.readouterr().out)["runs"][hat_chain.folder.name]


def chain_of(run):
    ((slug, chain),) = run["scores"]["chains"].items()
    return chain["trips"], run["retention"][slug], slug


def test_every_trip_names_the_part_and_window_that_lost_most(output):
    trips, retention, _ = chain_of(output)
    assert list(retention) == list(METRICS)
    for number, trip in enumerate(trips):
        kept = {name: retention[name][number] for name in headline_parts() if retention[name]}
        assert trip["because"] == min(kept, key=kept.__getitem__)
        assert retention["overall"][number] <= min(kept.values())
        left, top, right, bottom = trip["window"] or (0, 0, 1, 1)
        assert 0 <= left < right <= 1
        assert 0 <= top < bottom <= 1
        assert trip["undo"] < 1  # the hat was somewhere


def test_every_metric_reports_when_the_chain_ended_and_why(output):
    trips, retention, slug = chain_of(output)
    events = {name: result["events"][slug] for name, result in output["results"].items()}
    assert all(event["cause"] in (*CAUSES, None) for event in events.values())
    crossed = [n for n, q in enumerate(retention["overall"]) if q <= 0.5]
    event = events["overall"]
    if crossed:
        because = trips[crossed[0]]["because"]
        assert event["cause"] == because
        assert crossed[0] < event["time"] <= crossed[0] + 1
    else:
        assert event == {"time": 3.0, "cause": None, "recovered": False}
    assert events["object"]["cause"] in ("object", None)
    assert events["lpips"]["cause"] in ("whole", None)


@pytest.fixture
def small_chain(tmp_path):
    """Two trips that add and remove a patch."""
    folder = tmp_path / "chain"
    folder.mkdir()
    bare = Image.linear_gradient("L").convert("RGB").resize((64, 48))
    bare.save(folder / "I0_source.png")
    for number in (1, 2):
        edited = bare.copy()
        ImageDraw.Draw(edited).rectangle((10, 4, 34, 20), fill=(200, 30, 30))
        edited.save(folder / f"I{number}_forward.png")
        bare.point(lambda v, n=number: v + n).save(folder / f"I{number}_backward.png")
    return folder


@pytest.fixture
def judge(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("JUDGE_KEY", KEY)
    with FakeJudge() as fake:
        yield fake


def test_a_judge_is_queried_once_about_one_chain_and_about_many(small_chain, judge, capsys):
    asked = ["--judge", "fake-vlm", "--judge-url", f"{judge.server.url}/v1", "--json"]
    command = [*asked, "--metrics", "psnr", "--no-report", "--object", "hat"]
    for folder in (small_chain, small_chain.parent):
        assert main(["score", str(folder), *command]) == 0
        output = json.loads(capsys.readouterr().out)
        (run,) = output["runs"].values()
        said = [
            [one["made"] for one in trip["evidence"] if one["witness"] == "judge"]
            for trip in chain_of(run)[0]
        ]
        assert said == [[True, None], [True]]  # the rubric says neither
        assert KEY not in json.dumps(output)
        assert Path(folder / "judge.jsonl").is_file()
    before = len(judge.bodies)
    assert main(["score", str(small_chain), *command]) == 0
    assert len(judge.bodies) == before


def test_a_judge_that_is_down_changes_nothing_else(small_chain, judge, capsys, monkeypatch):
    monkeypatch.setattr("evaluation.witnesses.judge.ATTEMPTS", 1)
    judge.always = "down"
    asked = ["--judge", "fake-vlm", "--judge-url", f"{judge.server.url}/v1"]
    assert main(["score", str(small_chain), *asked, "--metrics", "psnr", "--no-report"]) == 0
    output = capsys.readouterr()
    assert "the judge stopped" in output.err
    assert KEY not in output.err
    assert "PSNR" in output.out


def test_a_pair_of_the_benchmark_can_be_named(small_chain, capsys):
    command = ["score", str(small_chain), "--metrics", "psnr", "--no-report", "--json"]
    assert main([*command, "--pair", "flip-vertical"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"].values()
    first = chain_of(run)[0][0]
    assert first["change_seen"] is False  # a patch is no flip
    assert any(one["witness"] == "geometry" for one in first["evidence"])
    assert main([*command, "--pair", "glases"]) != 0
    assert "glasses" in capsys.readouterr().err


def cut_off(file):
    file.write_bytes(file.read_bytes()[:-60])


@pytest.mark.parametrize("cut", ["I2_forward.png", "I2_backward.png"])
def test_a_chain_with_a_cut_off_image_is_scored_up_to_the_trip_before(small_chain, cut, capsys):
    cut_off(small_chain / cut)
    command = ["score", str(small_chain), "--metrics", "psnr", "--json"]
    assert main(command) == 0
    output = capsys.readouterr()
    (run,) = json.loads(output.out)["runs"].values()
    assert len(chain_of(run)[0]) == 1
    assert cut in output.err
    assert "Only 1 of the 2 trips of chain can be scored" in output.err


@pytest.mark.parametrize("cut", ["I0_source.png", "I1_backward.png"])
def test_a_chain_without_a_whole_trip_is_refused(small_chain, cut, capsys):
    cut_off(small_chain / cut)
    assert main(["score", str(small_chain), "--metrics", "psnr", "--no-report"]) == 1
    assert cut in capsys.readouterr().err


def test_of_many_chains_one_with_a_cut_off_image_shortens_all(small_chain, capsys):
    shutil.copytree(small_chain, small_chain.with_name("other"))
    cut_off(small_chain.with_name("other") / "I2_backward.png")
    command = ["score", str(small_chain.parent), "--metrics", "psnr", "--no-report", "--json"]
    assert main(command) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["suite"]["trips"] == 1
    assert "Only 1 of the 2 trips of other can be scored" in output.err
