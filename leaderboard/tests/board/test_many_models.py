"""A board with every kind of run, and with more ranked models than it shows at first."""

from __future__ import annotations

import datetime

import pytest
from django.utils import timezone

from leaderboard.board.row import BoardFilters
from leaderboard.board.rows import RANKED, board_rows
from leaderboard.models import EditingModel, Run, Suite
from leaderboard.models.runs import RunState
from leaderboard.testing.boards import make_model, make_run, make_suite
from leaderboard.views.board import under_way

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite() -> Suite:
    """Runs of every kind, with more ranked models than the board shows at first."""
    suite = make_suite(images=2)
    for number in range(9):
        # Three are not reached, two are equal: the name decides.
        make_run(f"Model {number}", suite, (40, 30, 50, 7, 7, 3, 2, 1, 9)[number], rank=number + 1)
    again = EditingModel.objects.get(slug="model-3")
    earlier = make_run(again, suite, 2, current=False)
    long_ago = timezone.now() - datetime.timedelta(days=40)
    Run.objects.filter(pk=earlier.pk).update(finished_at=long_ago)
    make_run(make_model("Oracle", is_reference=True), suite, 1e6)
    make_run("Flagged", suite, 6, flags=[{"text": "returns the source"}])
    make_run("Cleared", suite, 6, flags=[{"text": "returns the source"}], cleared=True, rank=4)
    make_run("Incomplete", suite, 6, complete=False)
    make_run("By another metric", suite, 6, metrics=("lpips",))
    make_run("From elsewhere", suite, 6, source=Run.Source.EXTERNAL)
    make_run("Hidden", suite, 19)
    make_run("Arm", suite, 19, arm_digest="0" * 64)
    EditingModel.objects.filter(slug="hidden").update(status="hidden")
    make_run("Secret", suite, 19, published=False)
    make_run("Cancelled", suite, 19, state=RunState.CANCELLED, current=False)
    playing = {"state": RunState.PLAYING, "current": False, "edits_total": 12}
    new = make_model("A new reference editor", is_reference=True)
    make_run(new, suite, published=False, edits_done=3, **playing)
    make_run("Playing", suite, published=True, edits_done=9, **playing)
    return suite


@pytest.mark.parametrize(("metric", "ranked"), [("overall", 10), ("lpips", 11)])
def test_only_complete_public_runs_without_flags_are_ranked(suite, metric, ranked):
    rows = board_rows(BoardFilters(suite, metric=metric))
    assert sum(row.group == RANKED for row in rows) == ranked
    names = {row.model.name for row in rows}
    assert {"Flagged", "Incomplete", "From elsewhere", "Playing"} <= names
    assert not {"Hidden", "Arm", "Secret", "Cancelled"} & names


def test_runs_in_progress_are_listed_most_advanced_first(suite):
    names = [run.editing_model.name for run in under_way(BoardFilters(suite))]
    assert names == ["Playing", "A new reference editor"]


def test_the_page_states_how_many_models_are_hidden(client, suite, monkeypatch):
    monkeypatch.setattr("leaderboard.views.board.FIRST_ROWS", 3)
    html = client.get("/").content.decode()
    assert "Show all 10 models" in html
    assert "10 models ranked" in html
    assert ">Model 7<" not in html
    assert ">Model 7<" in client.get("/?every=1").content.decode()
    assert ">Oracle<" in html
    assert ">Flagged<" in html
    assert ">Hidden<" not in html
    assert ">Secret<" not in html
