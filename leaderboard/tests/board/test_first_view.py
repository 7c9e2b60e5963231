"""The board as it opens says what the whole board says, though it reads less."""

from __future__ import annotations

import datetime

import pytest
from django.utils import timezone

from leaderboard.board.filters import BoardFilters
from leaderboard.board.first_view import first_view, lines_of
from leaderboard.board.rows import RANKED, board_rows
from leaderboard.models import EditingModel, Run, Suite
from leaderboard.models.runs import RunState
from leaderboard.testing.boards import make_model, make_run, make_suite

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite() -> Suite:
    """Every kind of run that a board has to place, more ranked ones than it shows at once."""
    suite = make_suite(pictures=2)
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
    playing = {"state": RunState.PLAYING, "current": False, "edits_total": 12}
    new = make_model("A new yardstick", is_reference=True)
    make_run(new, suite, published=False, edits_done=3, **playing)
    make_run("Playing", suite, published=True, edits_done=9, **playing)
    return suite


def said(row):
    """All that a row shows, and of what it is made."""
    standings = (row.standing and row.standing.pk, row.semantic and row.semantic.pk)
    return row.group, row.model.name, row.run.pk, row.reason, row.added, *standings


@pytest.mark.parametrize("metric", ["picture", "lpips"])
@pytest.mark.parametrize("count", [1, 4, 20])
def test_the_first_view_is_the_beginning_of_the_whole_board(suite, metric, count):
    filters = BoardFilters(suite, metric=metric)
    whole = board_rows(filters)
    ranked = [row for row in whole if row.group == RANKED]
    seen = first_view(lines_of(suite), filters, count)
    expected = ranked[:count] + [row for row in whole if row.group != RANKED]
    assert [said(row) for row in seen.rows] == [said(row) for row in expected]
    assert seen.ranked == len(ranked) == (11 if metric == "lpips" else 10)
    assert seen.leaders == sum(row.standing.rank == 1 for row in ranked)
    under_way = [run.editing_model.name for run in seen.under_way]
    assert under_way == ["Playing", "A new yardstick"][:count]


def test_only_what_is_shown_is_read_whole(client, suite, django_assert_max_num_queries):
    filters = BoardFilters(suite)
    lines = lines_of(suite)
    with django_assert_max_num_queries(3):
        seen = first_view(lines, filters, 2)
    with django_assert_max_num_queries(0):
        assert all(row.run.suite.trips and said(row) for row in seen.rows)


def test_the_page_says_how_many_more_there_are(client, suite, monkeypatch):
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
