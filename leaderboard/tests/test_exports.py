"""Results that travel: the same numbers as the pages, in files that are safe to open."""

from __future__ import annotations

import csv
import io
import json

import pytest

from leaderboard import exports
from leaderboard.models import EditingModel
from leaderboard.tests.boards import make_model, make_run, make_suite
from leaderboard.tests.test_standings import played
from leaderboard.tests.test_standings import suite as _suite

pytestmark = pytest.mark.django_db
suite = _suite


def table(answer) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(answer.content.decode())))


def test_the_board_as_csv_has_the_rows_of_the_page(client):
    demo = make_suite()
    make_run(make_model("Alpha"), demo, 9.0, rank=1)
    make_run(make_model("Beta"), demo, 60.0, rank=1)
    rows = table(client.get("/?format=csv"))
    assert [(row["model"], row["half_life"]) for row in rows] == [
        ("Beta", "> 20"),
        ("Alpha", "9.0"),
    ]
    assert [row["model"] for row in table(client.get("/?format=csv&sort=name"))] == [
        "Alpha",
        "Beta",
    ]
    assert b"<!doctype" in client.get("/?sort=name").content.lower()


def test_the_board_as_json_is_what_the_api_says(client):
    make_run(make_model("Alpha"), make_suite(), 9.0)
    assert client.get("/?format=json").json() == client.get("/api/v1/leaderboard").json()


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1+cmd", "-1+cmd", "@SUM(1)"])
def test_a_spreadsheet_runs_no_formula_of_ours(client, name):
    make_run(make_model(name, slug="m"), make_suite(), 9.0)
    cell = table(client.get("/?format=csv"))[0]["model"]
    assert cell.startswith("'")


def test_every_score_of_a_run_comes_as_csv_and_json(client, suite):
    run = played(suite, "m", 0.1)
    lines = b"".join(client.get(f"/runs/{run.pk}/scores.csv").streaming_content).decode()
    rows = list(csv.DictReader(io.StringIO(lines)))
    assert len(rows) == 16 * 10
    assert float(rows[0]["retention"]) == pytest.approx(0.9)
    data = json.loads(b"".join(client.get(f"/runs/{run.pk}/scores.json").streaming_content))
    assert len(data) == 160
    assert data[0]["distance"] == pytest.approx(0.08)


def test_a_private_runs_scores_are_not_found(client, suite):
    run = played(suite, "m", 0.1)
    type(run).objects.update(published=False)
    assert client.get(f"/runs/{run.pk}/scores.csv").status_code == 404


def test_a_suites_scores_come_as_parquet_once_a_worker_wrote_them(client, suite):
    pq = pytest.importorskip("pyarrow.parquet")
    run = played(suite, "m", 0.1)
    type(run).objects.update(current=True)
    address = f"/suites/{suite.slug}/{suite.version}/scores.parquet"
    assert client.get(address).status_code == 404
    exports.write_parquet(suite)
    exports.write_parquet(suite)
    found = pq.read_table(io.BytesIO(b"".join(client.get(address).streaming_content)))
    assert found.num_rows == 160
    assert found.schema.metadata[b"content_hash"].decode() == suite.content_hash


def test_a_citation_names_suite_version_hash_and_view(client):
    demo = make_suite()
    make_run(make_model("Alpha"), demo, 9.0, levels=(0.5, 0.75))
    text = client.get("/cite.bib?level=0.75").content.decode()
    assert f"content hash {demo.content_hash[:12]}" in text
    assert "level=0.75" in text
    assert f"suite={demo.slug}-v1" in text


def test_a_badge_shows_half_life_and_rank_escaped(client):
    make_run(make_model("Alpha"), make_suite(), 9.0, rank=2)
    EditingModel.objects.create(slug="new", name="New", editor="noop")
    answer = client.get("/badges/alpha.svg")
    assert "half-life 9.0 trips, rank 2" in answer.content.decode()
    assert answer["Content-Type"] == "image/svg+xml"
    assert "not measured" in client.get("/badges/new.svg").content.decode()
    assert client.get("/badges/nobody.svg").status_code == 404
