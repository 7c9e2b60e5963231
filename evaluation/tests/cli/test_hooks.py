"""A run is reported to wandb, MLflow or a hook while it is played, and as YAML for a model's page."""

import importlib.util
import json
import sys
from types import ModuleType, SimpleNamespace

import pytest
import yaml
from convergebench import Paused, ScoreOptions, evaluate, suite
from huggingface_hub import parse_eval_result_entries
from huggingface_hub.repocard_data import model_index_to_eval_results
from PIL import ImageOps

from evaluation.__main__ import main

FEW = {
    "suite": suite("smoke", trips=2, cases="desert--*"),
    "score": ScoreOptions(metrics=["psnr", "ssim"]),
}


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def mirror(image, prompt, seed):
    return ImageOps.flip(image)


class Kept:
    """A hook that records its calls."""

    def __init__(self, fails_at=None):
        self.events, self.fails_at = [], fails_at

    def _keep(self, what, value):
        self.events.append((what, value))
        if what == self.fails_at:
            raise ConnectionError("nobody listens")

    def begin(self, about):
        self._keep("begin", about)

    def on_trip(self, trip):
        self._keep("trip", trip)

    def end(self, results):
        self._keep("end", results)


def test_a_hook_gets_the_beginning_every_trip_and_the_results():
    kept, trips = Kept(), []
    results = evaluate(mirror, log=[kept, trips.append], **FEW)
    assert [what for what, _ in kept.events] == ["begin", "trip", "trip", "end"]
    about = kept.events[0][1]
    assert (about["suite"], about["chains"]) == ("smoke", 1)
    assert results.run.secret not in json.dumps(about)
    assert [trip for what, trip in kept.events if what == "trip"] == trips
    assert kept.events[-1][1] == results.metrics


@pytest.mark.parametrize("fails_at", ["begin", "trip", "end"])
def test_a_hook_that_fails_is_removed_and_the_run_continues(fails_at, capsys):
    broken, whole = Kept(fails_at), Kept()
    assert evaluate(mirror, log=[broken, whole], **FEW).standing.summary.chains == 1
    assert broken.events[-1][0] == fails_at
    assert [what for what, _ in whole.events] == ["begin", "trip", "trip", "end"]
    errors = capsys.readouterr().err
    assert errors.count("hook Kept failed and was removed: ConnectionError: nobody listens") == 1


def test_hooks_end_even_if_the_run_breaks_off():
    kept = Kept()

    def broken(image, prompt, seed):
        raise ValueError("no")

    with pytest.raises(Paused):
        evaluate(broken, log=kept, **FEW)
    assert kept.events[-1] == ("end", None)


def test_a_missing_hook_is_reported_before_anything_is_paid(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    play = ["run", "--play-only", "--editor", "noop", "--suite", "smoke", "--log"]
    assert main([*play, "wandb"]) == 1
    assert "--log wandb needs the package wandb: pip install wandb" in capsys.readouterr().err
    assert main([*play, "nothing"]) == 1
    assert "there is no hook called 'nothing'; there are wandb, mlflow" in capsys.readouterr().err


class Recorder(ModuleType):
    """A package that records how it was called."""

    def __init__(self, name):
        super().__init__(name)
        self.__spec__ = SimpleNamespace(name=name)
        self.calls = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def called(*args, **named):
            self.calls.append((name, args, named))
            return self.answer(name)

        return called

    def answer(self, name):
        return SimpleNamespace(
            info=SimpleNamespace(run_id="r1"),
            log=lambda row: self.calls.append(("log", (row,), {})),
            summary=SimpleNamespace(update=lambda d: self.calls.append(("summary", (d,), {}))),
            finish=lambda: self.calls.append(("finish", (), {})),
        )


@pytest.fixture
def package(monkeypatch):
    def made(name):
        found = Recorder(name)
        monkeypatch.setitem(sys.modules, name, found)
        return found

    return made


def run_with(*logs):
    arguments = ["run", "--editor", "jpeg", "--suite", "smoke", "--trips", "2"]
    arguments += ["--cases", "desert--*", "--metrics", "psnr,ssim"]
    return main([*arguments, "--log", ",".join(logs), "--out", "run"])


def test_wandb_gets_trips_results_and_curves(package):
    wandb = package("wandb")
    assert run_with("wandb") == 0
    (begun,) = [named for name, _, named in wandb.calls if name == "init"]
    assert begun["project"] == "convergebench"
    assert begun["config"]["editor"] == "jpeg"
    rows = [args[0] for name, args, _ in wandb.calls if name == "log"]
    assert [row["trip/trip"] for row in rows if "played" in row] == [1, 2]
    (summary,) = [args[0] for name, args, _ in wandb.calls if name == "summary"]
    assert summary["ssim/usable_trips"] == 2
    assert "ssim/half_life" not in summary  # longer than two trips can measure
    assert wandb.calls[-1][0] == "finish"


def test_mlflow_gets_trips_results_and_curves_under_the_runs_own_id(package):
    mlflow = package("mlflow")
    assert run_with("mlflow") == 0
    metrics = [(args[0], named) for name, args, named in mlflow.calls if name == "log_metrics"]
    assert [named.get("step") for _, named in metrics] == [1, 2, None]
    assert all(named["run_id"] == "r1" for _, named in metrics)
    assert metrics[-1][0]["psnr/usable_trips"] == 2
    steps = [named["step"] for name, _, named in mlflow.calls if name == "log_metric"]
    assert steps == [0, 1, 2, 0, 1, 2]
    assert mlflow.calls[-1][0] == "end_run"


@pytest.mark.release
@pytest.mark.slow
def test_the_real_wandb_stores_a_run_offline(monkeypatch, tmp_path):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    assert run_with("wandb") == 0
    assert list(tmp_path.glob("wandb/offline-run-*"))


@pytest.mark.release
@pytest.mark.slow
def test_the_real_mlflow_stores_a_run_in_a_folder(monkeypatch, tmp_path):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    assert run_with("mlflow") == 0
    assert list(tmp_path.glob("mlruns/*/*/metrics/ssim/usable_trips"))


# A model's page.


def test_results_are_yaml_that_the_hub_reads(capsys):
    run = evaluate(mirror, out="run", **FEW)
    header = json.loads((run.folder / "run.json").read_text()) | {"name": 'Mine: "a" #1'}
    (run.folder / "run.json").write_text(json.dumps(header))
    capsys.readouterr()
    assert main(["report", "run", "--model-index"]) == 0
    index = yaml.safe_load(capsys.readouterr().out)["model-index"]
    name, results = model_index_to_eval_results(index)
    assert name == 'Mine: "a" #1'
    assert results[0].task_type == "image-to-image"
    assert results[0].dataset_revision == run.suite.content_hash
    assert {one.metric_type: one.metric_value for one in results} == {
        "usable_trips_ssim": 2.0,
        "half_life_ssim": "> 2",
        "usable_trips_psnr": 2.0,
        "half_life_psnr": "> 2",
    }
    assert main(["report", "run", "--eval-results", "somebody/convergebench"]) == 0
    (entry,) = parse_eval_result_entries(yaml.safe_load(capsys.readouterr().out))
    assert (entry.dataset_id, entry.task_id) == ("somebody/convergebench", "smoke")
    assert entry.value == 2.0
    assert entry.date == header["ended"]
    assert not (run.folder / "report").exists()
