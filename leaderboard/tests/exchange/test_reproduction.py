"""The papers' tables beside ours: played here where that can be, else said what it takes."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from evaluation.arms import Arm
from evaluation.content import catalog
from evaluation.editors import load_editor
from evaluation.testing.fake_providers import FAKES, by_editor
from leaderboard import jobs
from leaderboard.exchange import edit_converge_bench
from leaderboard.exchange.published_figures import import_figures
from leaderboard.exchange.reproduction import facts, needs
from leaderboard.models import EditingModel, NoReferenceResult, Run, Suite
from leaderboard.models.runs import RunState
from leaderboard.testing import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics", "local")]

FLIP = replace(factories.FLIP, type="layout/turn")
REPLICA = replace(factories.REPLICA, type="text/font")


@pytest.fixture
def tiny() -> Suite:
    """Under the forerunner's suite's name: one picture, one turn, five trips, as figures go to 5."""
    return factories.tiny_suite(1, (FLIP, REPLICA), trips=5, slug="lite")


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def reproduce(paper: str, out: Path, *more: str) -> None:
    call_command("reproduce", paper, "--out", str(out), *more)


def model(slug: str, editor: str, **fields: Any) -> EditingModel:
    return factories.editing_model(slug, editor, **fields)


@pytest.mark.parametrize("name", facts.PAPERS)
def test_every_model_of_a_paper_ships_and_every_setting_is_said_of_both(name):
    found = facts.read(name)
    shipped = {row["slug"] for row in catalog.editing_models()}
    assert set(found.models.values()) <= shipped
    assert all(len(row) == 3 and all(row) for row in found.settings)
    assert found.suite in {suite.slug for suite in catalog.suites()}


def test_what_lacks_is_said_with_its_price(tiny, tmp_path, capsys, monkeypatch):
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for slug in facts.read("forerunner").models.values():
        model(slug, "gemini", price_per_edit="0.039", options={"model": "nano"})
    reproduce("forerunner", tmp_path / "out")
    said = capsys.readouterr().out
    assert "Nano Banana: not played: " in said
    assert "GEMINI_API_KEY" in said
    assert "20 edits, about $0.78" in said
    assert not Run.objects.exists()
    assert "not played" in rows(tmp_path / "out", "runs")[0]["Here"]


def test_the_forerunner_is_played_by_a_provider_and_laid_beside(
    tiny, tmp_path, monkeypatch, published_table
):
    import_figures(catalog.folder() / "published_figures.csv")
    edit_converge_bench.store(edit_converge_bench.read(published_table.path))
    with FAKES["gemini"](edit=by_editor(load_editor("jpeg"))) as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        model("gemini-2-5-flash-image", "gemini", options=dict(fake.options), price_per_edit="0.04")
        chosen = ("--model", "gemini-2-5-flash-image")
        reproduce("forerunner", tmp_path / "out", *chosen, "--play")
        asked = fake.edits
        reproduce("forerunner", tmp_path / "out", *chosen, "--play")
        assert fake.edits == asked > 0  # what is played is not played again
    run = Run.objects.get(source=Run.Source.OURS)
    line = next(
        row
        for row in rows(tmp_path / "out", "scores")
        if row["Model, metric"] == "Nano Banana, SSIM, after 5 trips"
    )
    shown = run.standings.get(metric__name="ssim", level=0.5, scope="all").curve["shown"][5]
    assert line["Here"] == f"{shown:.3f}"
    difference = float(line["Difference"].replace("−", "-"))
    assert difference == pytest.approx(shown - float(line["Published"]), abs=0.0011)
    usable = {row["Model"]: row for row in rows(tmp_path / "out", "usable")}
    assert usable["grok (edit-converge-bench)"]["Their rows"].endswith(f" of {10}")
    assert usable[run.editing_model.name]["Our run"].endswith(" of 5")
    text = (tmp_path / "out/comparison.md").read_text()
    assert "github.com/Qianli" in text
    assert tiny.content_hash in (tmp_path / "out/index.html").read_text()


def test_a_run_that_was_left_in_the_middle_is_played_on(tiny, tmp_path):
    yardstick = model("jpeg-75", "jpeg", is_reference=True)
    run = jobs.start(yardstick, tiny)
    reproduce("forerunner", tmp_path / "out", "--model", "jpeg-75", "--play")
    run.refresh_from_db()
    assert run.state == RunState.FINISHED
    assert Run.objects.count() == 1


def test_banana100_lays_its_verdicts_beside_our_counts(tmp_path):
    factories.tiny_suite(1, (REPLICA,), trips=5, slug="replication")
    model("jpeg-75", "jpeg", is_reference=True)
    call = ("banana100", tmp_path / "out", "--model", "jpeg-75")
    reproduce(*call, "--play")
    run = Run.objects.get()
    counts = {"returns": 12, "worse": 3, "better": 9, "gap": 4.25}
    NoReferenceResult.objects.update_or_create(
        run=run,
        defaults={
            "numbers": {
                "brisque": {"label": "BRISQUE", "trips": {"5": {"first": counts}}, "value": [30.0]}
            }
        },
    )
    reproduce(*call)
    verdicts = {row["Metric"]: row for row in rows(tmp_path / "out", "metrics")}
    name = run.editing_model.name
    assert len(verdicts) == 23
    assert verdicts["BRISQUE"]["There"] == "fails on some"
    assert verdicts["BRISQUE"][name] == "at 5: 3 of 12"
    assert verdicts["RALI"]["There"] == "notices every one"
    assert verdicts["RALI"][name] == "not run"
    assert rows(tmp_path / "out", "gaps")[0]["Step 5"] == "+4.2"
    assert rows(tmp_path / "out", "brisque")[0]["Change"] == "-43.9"


def test_pico_lays_its_rates_beside_what_was_made_here(tmp_path):
    factories.tiny_suite(1, (FLIP, REPLICA), trips=2, slug="standard")
    model("jpeg-75", "jpeg", is_reference=True)
    reproduce("pico", tmp_path / "out", "--model", "jpeg-75", "--play")
    name = EditingModel.objects.get().name
    found = {row["Type of edit"]: row for row in rows(tmp_path / "out", "types")}
    assert found["Flip or rotate"][name] == "1.000"  # a yardstick always turns
    assert found["Flip or rotate"]["Published"] == "–"
    assert found["Change font or colour of words"]["Published"] == "0.5759"
    assert found["Change font or colour of words"][name] == "–"  # a replica is not judged


def test_the_restoration_study_is_laid_beside_prompt_by_prompt(tmp_path):
    known = [pair for pair in catalog.edit_pairs() if pair.category == "restoration"]
    pairs = tuple(pair.pair for pair in known if pair.operator in ("motion", "zoom"))
    suite = factories.tiny_suite(2, pairs, trips=1, slug="restoration")
    noise = model("noise-2-5", "noise", is_reference=True)
    reproduce("restoration", tmp_path / "out", "--model", "noise-2-5", "--play")
    for wording in ("s1", "l3", "lf1"):
        arm = Arm(wording=wording, repeats=3).settled(known)
        needs.play(jobs.start(noise, suite, arm=arm))
    reproduce("restoration", tmp_path / "out", "--model", "noise-2-5")
    here = f"{noise.name} (here)"
    methods = {row["Method"]: row for row in rows(tmp_path / "out", "methods")}
    assert methods["DiffBIR (published)"]["PSNR"] == "21.856"
    assert float(methods[here]["PSNR"]) > 5
    assert methods[here]["MUSIQ"] == "not run"
    parts = {row["Part"]: row for row in rows(tmp_path / "out", "parts")}
    assert parts["Motion blur: Nano Banana 2 (published)"]["PSNR"] == "–"
    assert float(parts[f"Motion blur: {here}"]["SSIM"]) < 1
    prompts = {row["Prompt"]: row for row in rows(tmp_path / "out", "prompts")}
    assert prompts["S1: Nano Banana 2 (published)"]["SSIM"] == "0.664"
    assert prompts[f"S1: {here}"]["SSIM"] != "–"
    assert f"S2: {here}" not in prompts
    friedman = {row["Model"]: row for row in rows(tmp_path / "out", "friedman")}
    assert 0 <= float(friedman[f"{noise.name}, 3 prompts, p"]["PSNR"]) <= 1
    reruns = {row["Prompt"]: row for row in rows(tmp_path / "out", "reruns")}
    assert reruns["L3: p (published)"]["SSIM"] == "0.651"
    assert 0 <= float(reruns[f"L3: p, {here}"]["SSIM"]) <= 1
    assert len(rows(tmp_path / "out", "scenes")) == 13 + 7


def test_it_says_what_is_not_here(tmp_path):
    with pytest.raises(CommandError, match="no suite 'lite' here"):
        reproduce("forerunner", tmp_path / "out")
    factories.tiny_suite(1, (FLIP,), trips=1, slug="lite")
    with pytest.raises(CommandError, match="no editing model"):
        reproduce("forerunner", tmp_path / "out", "--model", "nobody")
    model("jpeg-75", "jpeg", is_reference=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep")
    with pytest.raises(CommandError, match="holds something else"):
        reproduce("forerunner", tmp_path / "mine", "--model", "jpeg-75")
