"""Every `--json` output and every file of a run matches its schema."""

import json
import re
from pathlib import Path

import pytest

from evaluation.__main__ import COMMANDS, main, parser
from evaluation.cli.commands.schema import FILES, OUTPUTS, SCHEMAS, json_schema
from evaluation.testing.json_outputs import checked
from evaluation.testing.local_server import LocalServer
from examples.example_server import Handler

PLAY = ["run", "--play-only"]

FAST = ["--metrics", "psnr,ssim,piqe"]
SMALL = ["--suite", "smoke", "--trips", "1", "--cases", "desert--*,fruit--*"]
ONE_EDIT = ["--max-edits", "1", "--parallel", "1"]
#: Outputs of slow commands, which other tests check.
ELSEWHERE = {
    "experiment": "test_experiment",
    "experiment-estimate": "test_experiment",
}


@pytest.fixture(scope="module", autouse=True)
def somewhere(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("schemas"))
        yield


@pytest.fixture(scope="module")
def run(somewhere):
    assert main([*PLAY, "--editor", "jpeg", *SMALL, "--out", "run"]) == 0
    assert main(["score", "run", *FAST]) == 0
    return Path("run")


def output(capsys, name, *arguments, code=0):
    capsys.readouterr()
    assert main([*map(str, arguments), "--json"]) == code
    return checked(name, capsys.readouterr().out)


def test_the_schemas_are_listed_printed_and_written(capsys, tmp_path):
    assert main(["schema"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in SCHEMAS)
    assert main(["schema", "scores.json"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["format"]["const"] == 3
    assert main(["schema", "--out", str(tmp_path / "out")]) == 0
    written = {file.name: json.loads(file.read_text()) for file in (tmp_path / "out").iterdir()}
    assert written == {f"{name}.schema.json": json_schema(name) for name in SCHEMAS}
    assert main(["schema", "nothing"]) == 1
    assert "there is no schema 'nothing'" in capsys.readouterr().err


def test_lists_are_wrapped(capsys):
    assert len(output(capsys, "suites", "list", "suites")["suites"]) > 3
    assert output(capsys, "editors", "list", "editors", "--ready")["editors"]
    options = output(capsys, "editor-options", "list", "editors", "jpeg")["options"]
    assert options[0]["name"] == "quality"
    capsys.readouterr()
    main(["weights", "--check", "--json"])
    assert checked("weights", capsys.readouterr().out)["weights"]


def test_playing_reports_edits_and_cost_even_if_it_paused(capsys):
    play = [*PLAY, "--editor", "jpeg", *SMALL, "--out", "paused"]
    (paused,) = output(capsys, "run", *play, *ONE_EDIT, code=3)["runs"]
    assert (paused["edits"], paused["spent"]) == (1, 0)
    assert "--max-edits 1" in paused["paused"]
    assert output(capsys, "run", *play)["runs"][0]["outcomes"] == {"completed": 2}
    models = ["--models", "jpeg,noop", *SMALL, "--out", "many"]
    assert len(output(capsys, "run", *PLAY, *models)["runs"]) == 2
    again = ["run", "--editor", "noop", *SMALL, *FAST, "--out", "again"]
    ended = output(capsys, "run", *again, *ONE_EDIT, code=3)
    assert ended["runs"][0]["paused"]
    assert output(capsys, "run", *again)["ranks"][0]["metric"] == "ssim"


def test_scores_reports_merges_and_bundles(run, capsys):
    assert output(capsys, "score", "score", run, *FAST)["complete"]
    ranks = output(capsys, "report", "report", run, "--out", "page")["ranks"]
    assert [row["run"] for row in ranks] == ["run"]
    assert output(capsys, "merge", "merge", run, "--out", "merged")["complete"]
    assert output(capsys, "bundle", "bundle", run, "--out", "run.zip")["images"]
    assert output(capsys, "verify", "verify", "run.zip")["verified"] is True


def test_scores_of_a_file_are_imported_into_a_run(run, capsys):
    rows = "case,trip,metric,value,version\n"
    for case, value in (("desert--flip-vertical", 50), ("fruit--flip-horizontal", 70)):
        rows += f"{case},0,musiq,60,1\n{case},1,musiq,{value},1\n"
    Path("musiq.csv").write_text(rows)
    before = (run / "scores.json").read_text()
    taken = output(capsys, "score", "score", run, "--import", "musiq.csv")
    last = taken["no_reference"]["musiq"]["trips"]["1"]
    assert (last["source"]["worse"], last["better_cases"]) == (1, ["fruit--flip-horizontal"])
    # They stay when the run is scored again, and verification reports that they are imported.
    assert "musiq" in output(capsys, "score", "score", run, *FAST, "--again")["no_reference"]
    assert main(["bundle", str(run), "--out", "imported.zip"]) == 0
    verified = output(capsys, "verify", "verify", "imported.zip")
    assert (verified["different"], verified["verified"]) == (0, None)
    assert any("score file" in check["detail"] for check in verified["checks"])
    now = (run / "scores.json").read_text()
    Path("musiq.csv").write_text(rows + "nowhere--hat,1,musiq,1,1\n")
    assert main(["score", str(run), "--import", "musiq.csv"]) == 1
    assert "musiq.csv, line 6, case: the run has no image nowhere--hat" in capsys.readouterr().err
    assert (run / "scores.json").read_text() == now  # nothing half-written
    (run / "scores.json").write_text(before)


def test_own_chains_one_and_many(run, capsys):
    chain = run / "chains/desert--flip-vertical"
    for folder in (chain, run / "chains"):
        found = output(capsys, "score-chains", "score", folder, *FAST, "--no-report")
        assert len(found["runs"]) == 1


def test_an_endpoint(capsys):
    with LocalServer(Handler) as server:
        address = f"{server.url}/v1"
        assert output(capsys, "check-endpoint", "check-endpoint", address, "--allow-local")["ok"]


def test_the_files_of_a_run(run):
    checked("run.json", (run / "run.json").read_text())
    checked("scores.json", (run / "scores.json").read_text())
    for file in (run / "chains").glob("*/chain.json"):
        checked("chain.json", file.read_text())
    for line in (run / "calls.jsonl").read_text().splitlines():
        checked("calls.jsonl", line)


def test_every_json_output_is_checked_against_its_schema():
    whole = parser()
    subparsers = next(a for a in whole._actions if a.dest == "command").choices
    with_json = {
        name for name, one in subparsers.items() if any(a.dest == "json" for a in one._actions)
    }
    assert with_json <= {*OUTPUTS, "list"}
    assert set(COMMANDS) >= with_json
    checked_outputs = set(
        re.findall(r'(?:output\(\s*capsys, |checked\()"([\w.-]+)"', Path(__file__).read_text())
    )
    assert OUTPUTS.keys() - checked_outputs - ELSEWHERE.keys() == set()
    assert FILES.keys() == {"run.json", "scores.json", "chain.json", "calls.jsonl", "bundle.json"}
