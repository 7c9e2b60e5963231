from __future__ import annotations

import pytest
from django.db.models import F

from leaderboard.board.row import BoardFilters
from leaderboard.board.rows import board_rows
from leaderboard.models import Case, Suite, Trip
from leaderboard.standings.stored import latency
from leaderboard.testing.boards import make_model, make_run, make_suite
from leaderboard.views.value import COSTS, finding, points, same_weights

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite():
    suite = make_suite(images=2)
    for name, price, half_life in (
        ("Good (Host A)", "0.04", 8),
        ("Good (Host B)", "0.06", 8),
        ("Cheap", "0.01", 2),
        ("Beaten", "0.05", 3),
        ("Never", "0.01", 0),
        ("Unpriced", None, 15),
    ):
        model = make_model(name, price_per_edit=price, organisation="Lab")
        make_run(model, suite, half_life, rank=1, median_seconds=half_life, p95_seconds=20)
    return suite


def rows(suite):
    return [row for row in board_rows(BoardFilters(suite)) if row.group == "ranked"]


def test_no_model_beats_those_on_the_line_in_both(suite):
    found = points(rows(suite), COSTS["edit"])
    assert [p.name for p in found if p.best] == ["Cheap", "Good (Host A)"]
    assert "Unpriced" not in {p.name for p in found}
    for one in found:
        better = [
            o
            for o in found
            if o.cost <= one.cost
            and o.row.usable_trips >= one.row.usable_trips
            and (o.cost, o.row.usable_trips) != (one.cost, one.row.usable_trips)
        ]
        assert one.best == (not better), one.name
    assert (
        finding(found, COSTS["edit"])
        == "Good (Host A) and Cheap are unbeaten on price and durability"
    )


def test_the_chart_draws_what_the_line_compares(client, suite):
    figure = client.get("/value/figure.json").json()["figure"]
    line = next(trace for trace in figure["data"] if trace["name"] == "unbeaten")
    found = points(rows(suite), COSTS["edit"])
    assert line["y"] == [round(point.row.usable_trips, 3) for point in found if point.best]
    assert figure["layout"]["yaxis"]["title"]["text"] == "usable trips"


def test_a_usable_trip_costs_two_edits_and_the_trip_that_failed(suite):
    by_name = {row.model.name: row for row in rows(suite)}
    # 2 usable trips: three were paid, of two edits each.
    assert by_name["Cheap"].usd_per_usable_trip == pytest.approx(2 * 0.01 * 3 / 2)
    assert by_name["Never"].usd_per_usable_trip is None
    assert by_name["Unpriced"].usd_per_usable_trip is None


def test_hosts_of_the_same_weights_are_joined(client, suite):
    (group,) = same_weights(points(rows(suite), COSTS["edit"]))
    assert {p.name for p in group} == {"Good (Host A)", "Good (Host B)"}
    page = client.get("/value/").content.decode()
    assert page.count("same weights from other providers:") == 2


@pytest.mark.parametrize("by", ["", "edit", "usable", "median", "p95", "nonsense"])
def test_every_cost_has_a_page_and_a_figure(client, suite, by):
    page = client.get(f"/value/?by={by}").content.decode()
    assert "Price per usable trip" in page
    figure = client.get(f"/value/figure.json?by={by}").json()
    assert figure["figure"]["data"]
    assert figure["title"] in page.replace("&#x27;", "'")


def test_a_chart_without_data_is_no_error(client):
    assert client.get("/value/").status_code == 200
    assert client.get("/value/figure.json").json() == {}
    make_suite(images=1)
    assert client.get("/value/figure.json?q=x").json() == {}


def test_latency_is_that_of_single_edits_in_either_direction():
    trips = [Trip(edited_seconds=n, restored_seconds=100 if n == 9 else n) for n in range(10)]
    median, p95 = latency([*trips, Trip()])
    assert median == pytest.approx(4.5)
    assert 9 <= p95 < 100
    assert latency([]) == (None, None)


def test_a_usable_trip_of_another_shape_costs_all_of_its_edits(suite):
    before = {row.model.name: row.usd_per_usable_trip for row in rows(suite)}
    Case.objects.update(edits=F("edits") * 2)
    suite = Suite.objects.get(pk=suite.pk)
    after = {row.model.name: row.usd_per_usable_trip for row in rows(suite)}
    assert after["Cheap"] == pytest.approx(2 * before["Cheap"])
