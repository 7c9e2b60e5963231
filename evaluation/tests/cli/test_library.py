"""`evaluate()` and its results; the documented examples are run as written."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from convergebench import (
    EditorError,
    EncodedImage,
    Paused,
    PlayOptions,
    Refused,
    Results,
    ScoreOptions,
    Suite,
    evaluate,
    suite,
)
from PIL import Image, ImageOps

from evaluation.__main__ import main
from evaluation.errors import UserFacingError
from evaluation.testing.fake_providers.judge import KEY, FakeJudge
from evaluation.testing.local_server import LocalServer
from evaluation.testing.tiny_pipelines import instruct_pix2pix, save
from examples.example_server import Handler

PLAY = ["run", "--play-only"]

DOCS = Path(__file__).resolve().parents[3] / "docs"
# No witness covers a flip, so nothing heavy is loaded.
FEW = {
    "suite": suite("smoke", trips=1, cases="desert--*"),
    "score": ScoreOptions(metrics=["psnr", "ssim"]),
}
TWO_TRIPS = {**FEW, "suite": suite("smoke", trips=2, cases="desert--*")}


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")


def mirror(image, prompt, seed):
    return ImageOps.mirror(image)


# The pages.


def blocks():
    return re.findall(r"```python\n(.*?)```", (DOCS / "library.md").read_text(), re.DOTALL)


def cells():
    notebook = json.loads((DOCS / "library.ipynb").read_text())
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


def run_code(code):
    names = {"__name__": "a_page"}
    exec(compile(code, "a_page", "exec"), names)
    return names


@pytest.mark.slow
def test_the_page_runs_as_written_for_a_function_a_pipeline_an_endpoint_and_a_class(
    tmp_path, monkeypatch, capsys
):
    a_function, a_pipeline, an_endpoint, a_class = blocks()
    assert all(len(re.findall(r"^[^#\s].*", block, re.MULTILINE)) <= 15 for block in blocks())
    names = run_code(a_function)
    assert names["results"].standing.summary.usable_trips == 0  # it made no edit
    assert (tmp_path / "runs/blur/report/index.html").is_file()
    made = save(instruct_pix2pix, tmp_path / "made")
    (tmp_path / "timbrooks").mkdir()
    made.rename(tmp_path / "timbrooks/instruct-pix2pix")
    assert run_code(a_pipeline)["results"].standing.summary.chains == 1
    with LocalServer(Handler) as server:
        monkeypatch.setenv("ENDPOINT_URL", f"{server.url}/v1")
        assert len(run_code(an_endpoint)["results"].run.calls()) == 2
    assert run_code(a_class)["results"].run.header.provenance["editor"] == {"levels": 64}


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom():
    names = run_code("\n".join(cells()))
    assert len(names["trips"]) == 2 * len(names["results"].scores.chains)


# Arguments of evaluate.


def test_a_function_an_editor_a_class_and_a_name_are_editors():
    assert isinstance(suite("smoke"), Suite)
    for editor in (mirror, "noop", "evaluation.editors.reference:NoOp"):
        results = evaluate(editor, **FEW)
        assert results.standing.summary.chains == 1
        assert results.folder.is_dir()


def test_an_evaluation_continues_and_other_settings_are_refused():
    asked = []

    def counted(image, prompt, seed):
        asked.append(seed)
        return ImageOps.mirror(image)

    with pytest.raises(Paused, match="max-edits 1"):
        evaluate(counted, out="run", play=PlayOptions(max_edits=1), **FEW)
    first = evaluate(counted, out="run", **FEW)
    again = evaluate(counted, out="run", **FEW)
    assert len(asked) == 2
    assert again.scores == first.scores == Results.open("run").scores
    with pytest.raises(UserFacingError, match="is a run with editor"):
        evaluate(mirror, out="run", **FEW)


@pytest.mark.parametrize(
    ("answer", "said"),
    [(lambda: None, "no PIL image: None"), (lambda: 1 / 0, "ZeroDivisionError: division by zero")],
)
def test_an_exception_in_a_function_pauses_the_run_and_is_named(answer, said):
    def broken(image, prompt, seed):
        return answer()

    with pytest.raises(Paused, match=said) as paused:
        evaluate(broken, out="run", **FEW)
    assert isinstance(paused.value.__cause__, EditorError)


def test_a_refusal_ends_its_chain_and_nothing_else():
    def shy(image, prompt, seed):
        raise Refused("no hats")

    (row,) = evaluate(shy, **FEW).chains()
    assert (row["outcome"], row["reason"], row["usable_trips"]) == ("refused", "no hats", 0)


def test_bad_arguments_are_named():
    for editor, said in (
        ("nowhere.at_all:Editor", "No module named 'nowhere'"),
        ("missing.py:edit", "there is no file missing.py"),
        (3, "neither an Editor nor a function"),
    ):
        with pytest.raises(UserFacingError, match=re.escape(said)):
            evaluate(editor, **FEW)
    with pytest.raises(UserFacingError, match="at least one trip"):
        suite("smoke", trips=0)


def test_every_trip_is_logged_and_a_model_card_has_a_table(capsys):
    told = []
    evaluate(mirror, out="run", log=told.append, **TWO_TRIPS)
    assert [row["trip"] for row in told] == [1, 2]
    json.dumps(told)
    header = json.loads(Path("run/run.json").read_text()) | {"name": "a | b\n<script>"}
    Path("run/run.json").write_text(json.dumps(header))
    capsys.readouterr()
    assert main(["report", "run", "--markdown"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) == 3  # the head, PSNR and SSIM
    assert all(row.replace("\\|", "").count("|") == 7 for row in rows)
    assert "a \\| b \\<script\\>" in rows[1]
    assert not Path("run/report").exists()


def judged_by(judge):
    return {**FEW, "score": ScoreOptions(metrics=["psnr", "ssim"], judge=judge)}


def test_a_judge_is_queried_and_its_answers_are_stored_without_its_key():
    with FakeJudge() as fake:
        settings = {"model": "m", "url": f"{fake.server.url}/v1", "key": KEY, "calls": 4}
        results = evaluate(mirror, out="run", **judged_by(settings))
    assert results.scores.provenance["judge"]["calls"] > 0
    assert Path("run/judge.jsonl").is_file()
    assert not any(KEY in f.read_text() for f in Path("run").glob("*.json*"))
    with pytest.raises(UserFacingError, match="JUDGE_KIND"):
        evaluate(mirror, out="run", **judged_by({"model": "m", "kind": "telnet"}))


# Results.


def test_frames_have_a_row_for_every_trip_chain_and_call_and_name_missing_packages():
    results = evaluate(mirror, **TWO_TRIPS)
    trips, chains, calls = results.trips_frame(), results.chains_frame(), results.calls_frame()
    assert (len(trips), len(chains), len(calls)) == (2, 1, 4)
    assert trips["psnr_retention"].notna().all()
    assert list(results.curves()["psnr"])[1:] == pytest.approx(list(trips["psnr_retention"]))
    with pytest.raises(UserFacingError, match="need nonesuch, which is not installed"):
        results.trips_frame("nonesuch")


def test_a_temporary_run_is_deleted_with_its_results_unless_saved():
    results = evaluate(mirror, **FEW)
    aside, kept = results.folder, results.save("kept")
    with pytest.raises(UserFacingError, match="already exists"):
        results.save("kept")
    assert "psnr" in str(results).lower()
    scores = results.scores
    del results
    assert not aside.exists()
    assert Results.open(kept).scores == scores
    assert main(["report", str(kept), "--metrics", "psnr"]) == 0


def test_an_api_key_is_sent_and_not_stored():
    with LocalServer(Handler) as server:
        options = {"url": f"{server.url}/v1", "allow_local": True, "api_key": "sk-very-secret"}
        results = evaluate("endpoint", options=options, **FEW)
    written = [f.read_bytes() for f in results.folder.rglob("*") if f.is_file()]
    assert not any(b"sk-very-secret" in data for data in written)


# Your own editors in the shell.

OWN = """
from PIL import ImageOps

def edit(image, prompt, seed, flip=False):
    return ImageOps.flip(image) if flip else ImageOps.mirror(image)

nothing = 3
"""


def test_your_own_editor_is_played_by_its_location_and_continues(tmp_path, capsys):
    (tmp_path / "models").mkdir()
    (tmp_path / "models/own_one.py").write_text(OWN)
    play = [*PLAY, "--suite", "smoke", "--trips", "1", "--json"]
    few = ["--max-edits", "3"]
    for place in ("models/own_one.py:edit", "models.own_one:edit"):
        out = ["--out", place.partition(".")[2].replace(":", "-")]
        assert main([*play, *out, "--editor", place, *few]) == 3
        capsys.readouterr()
        assert main([*play, *out, "--editor", place, "--max-edits", "5"]) == 3
        assert json.loads(capsys.readouterr().out)["runs"][0]["edits"] == 5
    header = json.loads(Path("py-edit/run.json").read_text())
    assert header["editor"] == "own_one.py:edit"  # no folders of this machine
    assert len(header["provenance"]["editor"]["source_sha256"]) == 64
    flipped = ["--editor", "models/own_one.py:edit", "--option", "flip=true", "--out", "flipped"]
    assert main([*play, *flipped, *few]) == 3
    assert main([*play, "--editor", "models/own_one.py:nothing"]) == 1
    assert "neither an Editor nor a function" in capsys.readouterr().err


def test_the_command_finds_a_module_in_the_working_directory(tmp_path):
    (tmp_path / "own_two.py").write_text(OWN)
    # Like the installed command, which does not have the working directory on Python's path.
    code = f"""
import sys
sys.path = [{str(DOCS.parent)!r}, *(path for path in sys.path if path)]
from evaluation.__main__ import main
sys.exit(main())"""
    arguments = [*PLAY, "--editor", "own_two:edit", "--suite", "smoke", "--max-edits", "1"]
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 3, ended.stderr


def test_images_are_pil_images_on_the_way_in_and_out():
    seen = []

    def look(image, prompt, seed):
        seen.append((image, prompt, seed))
        return EncodedImage.from_image(image)

    evaluate(look, **FEW)
    image, prompt, seed = seen[0]
    assert isinstance(image, Image.Image)
    assert (image.mode, type(prompt), type(seed)) == ("RGB", str, int)
