"""`convergebench` from the shell: commands, outputs and errors."""

import dataclasses
import io
import json
import re
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

from evaluation.__main__ import COMMANDS, main
from evaluation.cli.results import run_results
from evaluation.content import catalog
from evaluation.content.suites import Case
from evaluation.editors import load_editor
from evaluation.images import EncodedImage
from evaluation.measuring.scoring import Scorer
from evaluation.metrics import load_metric
from evaluation.play.folder_scores import score_run
from evaluation.play.folder_store import folder_player
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import RunScores

PLAY = ["run", "--play-only"]

SMOKE = catalog.suite("smoke")
FAST = "psnr,ssim"


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def suite_file(tmp_path_factory):
    """Three cases on two images, three trips."""
    cases = (
        Case("books", "clock"),
        Case("books", "rotate-180"),
        Case("fruit", "flip-horizontal"),  # four networks would score a face
    )
    suite = dataclasses.replace(SMOKE, slug="mini", trips=3, cases=cases)
    file = tmp_path_factory.mktemp("suite") / "mini.json"
    file.write_text(json.dumps(suite.to_dict()))
    return file


@pytest.fixture(scope="module")
def played(suite_file, tmp_path_factory):
    """A run folder of the JPEG editor on the small suite."""
    out = tmp_path_factory.mktemp("played") / "jpeg"
    assert main([*PLAY, "--editor", "jpeg", "--suite", str(suite_file), "--out", str(out)]) == 0
    return out


def copied(played, name="run"):
    shutil.copytree(played, name)
    return Path(name)


# The reference editors (docs/method.md).


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """Every reference editor on six cases, one per image: scores by editor."""
    wanted = ("glasses", "red-ball", "flip-vertical", "clock", "bird", "flip-horizontal")
    cases = tuple(case for case in SMOKE.cases if case.pair in wanted)
    suite = dataclasses.replace(SMOKE, trips=4, cases=cases)
    names = ["psnr", "ssim"]
    if not load_metric("lpips").missing():
        names.append("lpips")
    scorer, found = Scorer(names), {}
    scorer.panel.restrict_to(())
    for name in ("oracle", "noop", "blank-card", "thumbnail", "jpeg", "noise", "resample", "colour-drift"):  # fmt: skip
        folder = RunFolder.create(
            tmp_path_factory.mktemp("run") / name, suite, editor=name, options={}
        )
        with folder.playing():
            folder_player(folder, load_editor(name)).play()
        found[name] = run_results(suite, score_run(folder, scorer))
    return found


@pytest.mark.slow
def test_the_oracle_keeps_everything(references):
    for result in references["oracle"].values():
        assert result.summary.half_life is None
        assert result.summary.usable_trips == pytest.approx(4)
        assert result.summary.curve == pytest.approx([1] * 5, abs=1e-6)
        assert result.summary.change_seen == 1


@pytest.mark.parametrize("name", ["noop", "blank-card"])
def test_the_no_op_and_the_blank_card_are_caught(name, references):
    for result in references[name].values():
        assert result.summary.half_life == 0
        assert result.summary.usable_trips == 0
    outcomes = next(iter(references["blank-card"].values())).summary.outcomes
    assert outcomes["blank"] == 6


@pytest.mark.parametrize("name", ["noise", "resample"])
def test_noise_and_resampling_lose_the_image_step_by_step(name, references):
    for metric, result in references[name].items():
        curve = result.summary.curve
        assert all(after < before for before, after in pairwise(curve)), metric
        assert result.summary.change_seen == 1


def test_the_reference_editors_come_in_their_known_order(references):
    def area(name):
        return next(iter(references[name].values())).summary.auc

    assert area("oracle") > area("jpeg") > area("thumbnail") > area("blank-card")
    assert area("oracle") > area("noise") > area("thumbnail")
    assert area("oracle") > area("resample") > area("thumbnail")


# play, score, report.


def test_play_score_and_report_in_a_row(played, capsys):
    run = copied(played)
    assert main(["score", str(run), "--metrics", FAST]) == 0
    said = capsys.readouterr().out
    assert re.search(r"PSNR +> 3", said)
    assert "3 cases, 3 chains of 3 trips" in said
    assert main(["report", str(run), "--json"]) == 0
    where = json.loads(capsys.readouterr().out)
    page = Path(where["page"]).read_text()
    assert {Path(png).name for png in where["charts"]} == {
        "metrics.png",
        "retention.png",
        "survival.png",
    }
    # It needs nothing else: no address but the names of XML's vocabularies.
    text = re.sub(r"data:image/webp;base64,[^\"]+", "", page)
    addresses = set(re.findall(r"(?:https?:)?//[^\s\"'<>)]+", text))
    assert all("w3.org" in a or "purl.org" in a or "creativecommons.org" in a for a in addresses)
    assert page.count("data:image/webp;base64,") >= 3 * 5


def test_scoring_again_computes_only_what_is_new(played, capsys, monkeypatch):
    run = copied(played)
    assert main(["score", str(run), "--metrics", FAST, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(Scorer, "score", None)  # would fail if it were called
    assert main(["score", str(run), "--metrics", FAST, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert json.loads(json.dumps(RunScores.from_dict(first["scores"]).to_dict())) == first["scores"]


def test_other_metrics_are_not_mixed_with_existing_scores(played, capsys):
    run = copied(played)
    assert main(["score", str(run), "--metrics", "psnr", "--json"]) == 0
    assert main(["score", str(run), "--metrics", "psnr,ssim", "--json"]) == 0
    assert set(json.loads((run / "scores.json").read_text())["provenance"]["metrics"]) == {
        "psnr",
        "ssim",
    }


def test_runs_of_one_suite_are_compared_and_hostile_names_are_escaped(played, suite_file, capsys):
    run = copied(played)
    file = run / "run.json"
    header = json.loads(file.read_text())
    file.write_text(json.dumps(header | {"name": "<script>alert(1)</script>"}))
    assert main([*PLAY, "--editor", "noise", "--suite", str(suite_file), "--out", "noise"]) == 0
    assert main(["report", str(run), "noise", str(run), "--metrics", "psnr", "--out", "both"]) == 0
    page = Path("both/index.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; (2)" in page
    assert "Rank" in page


def test_runs_of_other_suites_are_not_compared(played, capsys):
    assert main([*PLAY, "--editor", "jpeg", "--suite", "smoke", "--trips", "1"]) == 0
    assert main(["report", str(played), "jpeg-smoke"]) == 1
    assert "only runs of the same suite can be compared" in capsys.readouterr().err


def test_playing_again_into_a_finished_run_plays_nothing(played, suite_file, capsys):
    run = copied(played)
    before = (run / "calls.jsonl").read_bytes()
    arguments = [*PLAY, "--editor", "jpeg", "--suite", str(suite_file), "--out", str(run)]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["outcomes"] == {"completed": 3}
    assert (run / "calls.jsonl").read_bytes() == before
    for other, message in (
        (["--secret", "5"], "is a run with secret"),
        (["--option", "quality=5"], "is a run with options {}"),
        (["--trips", "2"], "choose another --out"),
    ):
        assert main([*arguments, *other]) == 1
        assert message in capsys.readouterr().err


def test_an_option_reaches_the_editor(suite_file, capsys):
    arguments = [*PLAY, "--suite", str(suite_file), "--trips", "1", "--editor", "jpeg"]
    assert main([*arguments, "--option", "quality=5", "--out", "low"]) == 0
    header = json.loads(Path("low/run.json").read_text())
    assert header["options"] == {"quality": 5}
    assert header["provenance"]["editor"]["quality"] == 5


# Lists.


def test_every_editing_model_and_editor_is_listed_with_its_missing_requirements(
    capsys, monkeypatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    main(["list", "editors", "--json"])
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["editors"]}
    assert {row["slug"] for row in catalog.editing_models()} <= set(listed)
    assert listed["jpeg-75"]["missing"] == listed["jpeg"]["missing"] == []
    assert "OPENAI_API_KEY" in listed["gpt-image-2"]["missing"][0]
    main(["list", "editors", "--json", "--ready"])
    ready = json.loads(capsys.readouterr().out)["editors"]
    assert all(not entry["missing"] for entry in ready)


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=str)
def test_help_describes_every_command(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    assert len(capsys.readouterr().out) > 300


# Errors are reported in one line.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*PLAY, "--editor", "jpg", "--suite", "smoke"], "did you mean jpeg"),
        (
            [*PLAY, "--editor", "zzzzzz", "--suite", "smoke"],
            "`convergebench list editors` lists all",
        ),
        (
            [*PLAY, "--editor", "jpeg", "--suite", "smoky"],
            "there is no suite 'smoky'",
        ),
        ([*PLAY, "--editor", "jpeg", "--suite", "no/such.json"], "no/such.json"),
        (
            [*PLAY, "--editor", "jpeg", "--suite", "smoke", "--trips", "99"],
            "--trips cannot add any",
        ),
        (
            [*PLAY, "--editor", "jpeg", "--suite", "smoke", "--option", "x"],
            "NAME=VALUE",
        ),
        ([*PLAY, "--editor", "jpeg", "--suite", "smoke", "--option", "x=1"], "'x'"),
        ([*PLAY, "--editor", "gpt-image-2", "--suite", "smoke"], "OPENAI_API_KEY"),
        (["score", "nowhere"], "there is no folder nowhere"),
        (["score", ".", "--import", "x.csv"], "is not a run folder"),
        (["report", "nowhere"], "there is no folder nowhere"),
        (["score", "."], "contains no image"),
        (["weights", "nothing"], "there are no weights called"),
        (["weights", "--file", "x"], "--file needs exactly one name"),
    ],
)
def test_errors_are_reported_in_one_line(arguments, message, capsys, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(arguments) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert message in said[-1]
    assert said[-1].startswith("convergebench: ")


@pytest.mark.parametrize(
    "wrong",
    ["--trips=0", "--trips=-1", "--trips=two", "--parallel=0", "--budget=-1", "--price=inf"],
)
def test_a_number_out_of_range_is_a_wrong_argument(wrong, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*PLAY, "--editor", "jpeg", "--suite", "smoke", wrong])
    assert stop.value.code == 2
    assert wrong.partition("=")[0] in capsys.readouterr().err


def test_an_unknown_metric_is_named_with_those_that_exist(played, capsys):
    assert main(["score", str(played), "--metrics", "lpisp"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("convergebench: there is no metric 'lpisp'; there are overall, object, ")


def test_a_paid_run_needs_confirmation(monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    play = [*PLAY, "--editor", "gpt-image-2", "--suite", "smoke"]
    assert main(play) == 1
    said = capsys.readouterr().err
    assert "224 edits, about $14.56" in said
    assert "--yes" in said
    assert "budget" not in said
    assert main([*play, "--budget", "5"]) == 1
    assert "the budget of $5.00 does not cover" in capsys.readouterr().err
    assert main([*play, "--budget", "15"]) == 1
    assert "budget" not in capsys.readouterr().err


def test_a_budget_is_refused_if_the_price_is_unknown(monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    play = [*PLAY, "--editor", "gpt-image-1-mini", "--suite", "smoke", "--budget", "5"]
    assert main(play) == 1
    said = capsys.readouterr().err
    assert "the budget cannot be enforced" in said
    assert "--price" in said
    assert "--max-edits" in said
    for out, price in {"one": ["--price", "0.05"], "two": ["--option", "price=0.05"]}.items():
        assert main([*play, *price, "--out", out]) == 1
        said = capsys.readouterr().err
        assert "224 edits, about $11.20" in said
        assert "does not cover the whole run" in said


def test_a_kill_while_scoring_loses_at_most_one_chain(played):
    run = copied(played)
    score = [sys.executable, "-m", "evaluation", "score", str(run), "--metrics", FAST]
    process = subprocess.Popen(score, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (run / "scores.json").is_file():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = json.loads((run / "scores.json").read_text())["chains"]
    assert kept
    assert main(["score", str(run), "--metrics", FAST]) == 0
    after = json.loads((run / "scores.json").read_text())["chains"]
    assert len(after) == 3
    assert {slug: after[slug] for slug in kept} == kept


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m evaluation list editors | head -1"
    here = Path(__file__).resolve().parents[3]
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=here)
    assert done.stderr == ""


# score, of images that are not from a run.


def write_chain(folder, names):
    """An image that wears away, under these names."""
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(0)
    image = Image.fromarray(random.integers(0, 255, (12, 16, 3), dtype=np.uint8)).resize((96, 64))
    for step, name in enumerate(names):
        worn = image.filter(ImageFilter.GaussianBlur(step / 2))
        (folder / name).write_bytes(EncodedImage.from_image(worn).data)
    return folder


@dataclasses.dataclass
class ScoredChain:
    """The output of `score --json` for a single chain."""

    name: str
    trips: list
    retention: dict
    events: dict
    report: str | None


def scored(folder, capsys, *more):
    assert main(["score", str(folder), "--metrics", FAST, "--json", *more]) == 0
    data = json.loads(capsys.readouterr().out)
    ((name, run),) = data["runs"].items()
    ((slug, chain),) = run["scores"]["chains"].items()
    events = {metric: result["events"][slug] for metric, result in run["results"].items()}
    return ScoredChain(name, chain["trips"], run["retention"][slug], events, data["report"])


NAMES = ["I0_source.png", "I1_forward.png", "I1_backward.png", "I2_forward.png", "I2_backward.png"]


def test_a_chain_is_scored_by_name_and_reported_in_its_own_folder(tmp_path, capsys, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    data = scored(write_chain(tmp_path / "mine", NAMES), capsys)
    first, second = data.retention["psnr"]
    assert 1 > first > second
    assert data.events["psnr"] == {"time": 0, "cause": "not_made", "recovered": False}
    assert data.trips[0]["change_seen"] is False
    assert Path(data.report) == tmp_path / "mine/mine-report/index.html"
    assert Path(data.report).is_file()
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    "names",
    [
        ["I0_source.png", "I1_backward.png", "I2_backward.png"],
        ["i0_SOURCE.png", "I01_backward.png", "I2_Backward.png", "notes.txt.png"],
        ["1.png", "2.png", "10.png"],
        ["a-first.png", "b.png", "c.png"],
    ],
)
def test_forward_images_may_be_missing_and_names_may_be_any(names, tmp_path, capsys):
    data = scored(write_chain(tmp_path / "mine", names), capsys, "--no-report")
    kept = data.retention["psnr"]
    assert len(kept) == 2
    assert kept[0] > kept[1]
    assert data.trips[0]["change_seen"] is None
    assert data.report is None


def test_sorted_images_may_be_edited_and_restored_in_turn(tmp_path, capsys):
    folder = write_chain(tmp_path / "mine", [f"{n}.png" for n in range(5)])
    data = scored(folder, capsys, "--no-report", "--in-turn")
    assert len(data.trips) == 2
    assert data.trips[0]["change_seen"] is False


def test_a_manifest_names_the_files_and_the_edit(tmp_path, capsys):
    folder = write_chain(tmp_path / "mine", ["x.png", "y.png", "z.png"])
    manifest = {
        "model": "Mine",
        "source": "x.png",
        "trips": [{"forward": "y.png", "backward": "z.png"}],
        "pair": {"operator": "flip_horizontal", "forward": "Flip it."},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    data = scored(folder, capsys)
    assert data.name == "Mine"
    assert "to_truth" in data.trips[0]["change_measure"]
    assert "Flip it." in Path(data.report).read_text()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["I1_forward.png", "I1_backward.png"], "I0_source is missing"),
        (["I0_source.png", "I1_forward.png"], "there is no restored image yet"),
        (["I0_source.png", "I1_backward.png", "I3_backward.png"], "I2_backward is missing"),
        (["I0_source.png", "I1_backward.png", "I1_backward.PNG"], "name the same image"),
        (
            ["I0_source.png", "I0_backward.png", "I1_backward.png"],
            "only the source has the number 0",
        ),
        (["only.png"], "at least one restored image"),
    ],
)
def test_a_chain_with_gaps_is_refused_in_words(names, message, tmp_path, capsys):
    assert main(["score", str(write_chain(tmp_path / "mine", names))]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("{", "manifest.json"),
        ("[]", "expected"),
        ('{"trips": []}', "expected"),
        ('{"trips": [{"forward": "x.png"}], "source": "x.png"}', "trip 1 has no"),
        ('{"trips": ["x.png"]}', '"source" is missing'),
        ('{"trips": ["/etc/passwd"], "source": "x.png"}', "is outside"),
        ('{"trips": ["../x.png"], "source": "x.png"}', "is outside"),
        ('{"trips": ["gone.png"], "source": "x.png"}', "no file gone.png"),
        ('{"trips": ["x.png"], "source": "x.png", "pair": {"operator": "twist"}}', "'twist'"),
        (
            '{"trips": ["x.png"], "source": "x.png", "pair": {"change": "exact"}}',
            "operator is empty",
        ),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused_in_words(manifest, message, tmp_path, capsys):
    folder = write_chain(tmp_path / "mine", ["x.png"])
    (folder / "manifest.json").write_text(manifest)
    assert main(["score", str(folder)]) == 1
    assert message in capsys.readouterr().err


def test_an_image_that_cannot_be_read_is_named(tmp_path, capsys):
    folder = write_chain(tmp_path / "mine", ["I0_source.png"])
    (folder / "I1_backward.png").write_bytes(b"not an image")
    assert main(["score", str(folder), "--metrics", "psnr"]) == 1
    assert "I1_backward.png: not a PNG, JPEG or WebP" in capsys.readouterr().err


def test_the_chain_of_an_editor_is_scored(hat_chain, capsys, tmp_path):
    folder = shutil.copytree(hat_chain.folder, tmp_path / "hat")
    data = scored(folder, capsys)
    assert [trip["change_seen"] for trip in data.trips] == [True, True, True]
    kept = data.retention["psnr"]
    assert kept[0] > kept[1] > kept[2]
    assert (kept[0], kept[2]) == pytest.approx(hat_chain.kept, abs=0.02)
    assert data.events["ssim"]["time"] == pytest.approx(hat_chain.ends, abs=0.3)
    assert Path(data.report).is_file()
