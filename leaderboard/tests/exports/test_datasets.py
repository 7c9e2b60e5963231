"""Datasets: results in a form that outlives the server."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from leaderboard.exports import datasets
from leaderboard.models import Run
from leaderboard.testing import factories
from leaderboard.testing.played import play

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics")]


@pytest.fixture
def runs() -> list[Run]:
    """Return runs of two models on a suite of one image."""
    suite = factories.tiny_suite(1, (factories.FLIP,), trips=2)
    return [play(editor, suite) for editor in ("oracle", "thumbnail")]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_dataset_has_images_retention_preferences_and_licences(runs, tmp_path):
    out = tmp_path / "data"
    call_command("export_results", "dataset", str(out), "--suite", "tiny-v1", stdout=io.StringIO())
    degraded = rows(out / "degraded.jsonl")
    assert len(degraded) == 2 * 2  # two models, two trips
    for row in degraded:
        assert (row["licence"], row["attribution"]) == ("CC0-1.0", "A test")
        assert row["suite_hash"] == runs[0].suite.content_hash
        assert set(row["degraded"]["retention"]) == {"psnr", "ssim"}
        for name in (row["source"], row["degraded"]["image"]):
            data = (out / name).read_bytes()
            assert Path(name).stem == hashlib.sha256(data).hexdigest()
    preferences = rows(out / "preferences.jsonl")
    assert {row["from"] for row in preferences} >= {"two models"}
    for row in preferences:
        better, worse = row["better"]["retention"], row["worse"]["retention"]
        assert all(better[metric] > worse[metric] for metric in better)
    assert json.loads((out / "runs.json").read_text())[str(runs[0].pk)]["metrics"]
    words = " ".join((out / "README.md").read_text().split())
    assert "Preferences in `preferences.jsonl` come from metrics" in words


def test_runs_that_are_not_public_are_not_exported(runs, tmp_path):
    Run.objects.update(published=False)
    with pytest.raises(CommandError, match="no public run"):
        call_command("export_results", "dataset", str(tmp_path / "data"))
    with pytest.raises(CommandError, match="There is no suite other-v1; choose one of tiny-v1"):
        call_command("export_results", "dataset", str(tmp_path / "data"), "--suite", "other-v1")


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(CommandError, match="is not empty"):
        call_command("export_results", "dataset", str(tmp_path))


def test_preferences_within_a_chain_are_between_consecutive_trips():
    chain: Any = SimpleNamespace(run=1)
    trips: list[Any] = [SimpleNamespace(number=number) for number in (1, 2, 3)]
    image: Any = None
    images = [
        datasets.ScoredImage(chain, trip, image, {"psnr": 1 - trip.number / 10}) for trip in trips
    ]
    pairs = [
        (better.trip.number, worse.trip.number)
        for better, worse, _ in datasets._preferences(images)
    ]
    assert pairs == [(1, 2), (2, 3)]
