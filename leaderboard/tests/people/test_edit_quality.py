"""Edit quality by a judge is shown only once people's votes support the judge."""

from __future__ import annotations

import csv
import io

import pytest

from evaluation.analysis import votes
from leaderboard.board.row import BoardFilters
from leaderboard.board.rows import board_rows
from leaderboard.models import PeopleReport, PeopleStanding, Run, Standing, Trip
from leaderboard.pages.quality_chart import rated_models
from leaderboard.people import counting
from leaderboard.testing.votable import cast_votes

pytestmark = pytest.mark.django_db
JUDGE = "vlm-1-abc"
MODELS = ("Alder", "Beech", "Cedar")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(votes, "DRAWS", 60)


def judge_all(*, contrary: bool = False, version: str = JUDGE) -> None:
    """A judge that sees what the metrics see, or its contrary, and rates every run's edits."""
    for trip in Trip.objects.select_related("chain"):
        kept = trip.chain.retention("overall")[trip.number - 1]
        said = {"witness": "judge", "version": version, "thing": "a hat", "gates": False}
        trip.evidence = [said | {"made": True, "undone": (kept > 0.7) != contrary, "kept": None}]
        trip.save(update_fields=["evidence"])
    scores = {"Alder": 0.6, "Beech": 0.9, "Cedar": 0.5}
    for standing in Standing.objects.filter(run__editing_model__name__in=scores):
        score = scores[standing.run.editing_model.name]
        rated = {"score": score, "low": score - 0.05, "high": score + 0.05, "cases": 12}
        standing.counts["rubric"] = rated | {"judge": version}
        standing.usable_trips = {"Alder": 2.5, "Beech": 1.5, "Cedar": 1.0}[
            standing.run.editing_model.name
        ]
        standing.save(update_fields=["counts", "usable_trips"])


def lines(client, **query) -> list[dict[str, str]]:
    text = client.get("/", query | {"format": "csv"}).content.decode()
    return [row for row in csv.DictReader(io.StringIO(text)) if row["model"] in MODELS]


def test_a_judge_that_agrees_with_people_has_its_column_plane_and_figure(client, board):
    judge_all()
    cast_votes("pair", voters=10, each=40)
    counting.count()
    row = PeopleStanding.objects.get(run__editing_model__name="Beech")
    line = next(
        line
        for line in PeopleReport.objects.get().numbers["lines"]
        if line["name"] == f"judge {JUDGE}"
    )
    assert row.judge_share == line["everywhere"]["share"] > row.judge_low > 0.5
    rows = {row["model"]: row for row in lines(client)}
    assert {name: float(rows[name]["edit_quality"]) for name in MODELS} == {
        "Alder": 0.6,
        "Beech": 0.9,
        "Cedar": 0.5,
    }
    assert float(rows["Beech"]["edit_quality_low"]) == pytest.approx(0.85)
    words = f"Judge {JUDGE} chooses as people do in {100 * row.judge_share:.0f}\u00a0%"
    for address in ("/", "/value/", "/models/beech/"):
        page = client.get(address).content.decode()
        assert "Edit quality" in page
        assert words in page
    answer = client.get("/api/v1/leaderboard").json()["rows"]
    assert {one["model"]["name"]: one["edit_quality"] for one in answer}["Cedar"] == 0.5
    assert "Beech and Alder are unbeaten on edit quality and durability" in (
        client.get("/value/").content.decode()
    )


def test_no_model_beats_those_on_the_line_at_both(board):
    judge_all()
    cast_votes("pair", voters=10, each=40)
    counting.count()
    models = rated_models(board_rows(BoardFilters(board)))
    assert [model.name for model in models if model.best] == ["Beech", "Alder"]
    assert [model.name for model in models] == ["Beech", "Alder", "Cedar"]


@pytest.mark.parametrize("why", ["no votes", "contrary", "another version", "from elsewhere"])
def test_a_judge_without_proven_agreement_is_not_shown_as_quality(client, board, why):
    judge_all(contrary=why == "contrary")
    if why == "another version":
        for standing in Standing.objects.filter(counts__has_key="rubric"):
            standing.counts["rubric"]["judge"] = "vlm-2-abc"
            standing.save(update_fields=["counts"])
    if why == "from elsewhere":
        Run.objects.update(source=Run.Source.EXTERNAL, verified=True)
    if why != "no votes":
        cast_votes("pair", voters=10, each=40)
    counting.count()
    assert {row["edit_quality"] for row in lines(client)} == {""}
    assert 'data-label="Edit quality"' not in client.get("/").content.decode()
    assert 'id="quality"' not in client.get("/value/").content.decode()
