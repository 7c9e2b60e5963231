"""The filters on models: search, provider, price and date, all in the URL."""

from __future__ import annotations

import datetime
from urllib.parse import parse_qsl

import pytest
from django.utils import timezone

from leaderboard.board.columns import heads
from leaderboard.board.query import BoardQuery
from leaderboard.board.row import BoardFilters
from leaderboard.board.rows import board_rows
from leaderboard.models import EditingModel, Run
from leaderboard.testing.boards import make_model, make_run, make_suite

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite():
    suite = make_suite(images=2)
    for name, fields in {
        "Cheap": {"price_per_edit": "0.01", "provider": "Acme", "open_weights": True},
        "Dear": {"price_per_edit": "0.20", "provider": "Banana", "editor": "endpoint"},
        "Local": {"provider": "local", "organisation": "Acme Lab", "access": "local"},
    }.items():
        make_run(make_model(name, **fields), suite, 5)
    make_run(make_model("Oracle", is_reference=True), suite, 1e6)
    return suite


def shown(**parameters):
    query = BoardQuery.parse(parameters)
    names = {row.model.name for row in board_rows(query.filters, query.runs)}
    assert "Oracle" in names, "reference editors are always shown"
    return names - {"Oracle"}


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"q": "acme"}, {"Cheap", "Local"}),
        ({"q": "ACME lab"}, {"Local"}),
        ({"q": "nobody"}, set()),
        ({"provider": "Banana"}, {"Dear"}),
        ({"provider": "Acme Lab"}, {"Local"}),
        ({"played": "run here"}, {"Cheap", "Local"}),
        ({"played": "submitted endpoint"}, {"Dear"}),
        ({"price": "0.05"}, {"Cheap"}),
        ({"price": "0.05", "played": "submitted endpoint"}, set()),
        ({"weights": "open", "price": "0.05"}, {"Cheap"}),
        ({"weights": "closed"}, {"Dear", "Local"}),
        ({"since": "2100-01-01"}, set()),
        ({"since": "2020-01-01"}, {"Cheap", "Dear", "Local"}),
    ],
)
def test_each_filter_excludes_models_that_do_not_match(suite, parameters, names):
    assert shown(**parameters) == names


def test_filters_are_in_the_url_and_each_can_be_removed(client, suite):
    parameters = {"q": "e", "provider": "Banana", "played": "submitted endpoint", "price": "0.2"}
    query = BoardQuery.parse({**parameters, "since": "2026-01-02", "weights": "closed"})
    again = dict(parse_qsl(query.filters.query()))
    assert BoardQuery.parse(again).filters == query.filters
    assert len(query.active_filters) == 6
    without = [BoardQuery.parse(dict(parse_qsl(q))) for _, q in query.active_filters]
    assert {len(one.active_filters) for one in without} == {5}
    page = client.get("/", {"q": "nobody"}).content.decode()
    assert "No ranked model matches these filters" in page


def test_a_model_is_added_with_its_first_run_not_its_last(suite):
    model = EditingModel.objects.get(name="Cheap")
    long_ago = timezone.now() - datetime.timedelta(days=400)
    make_run(model, suite, 3, current=False, finished_at=long_ago)
    query = BoardQuery.parse({})
    row = next(r for r in board_rows(query.filters, query.runs) if r.model == model)
    assert row.added == long_ago
    assert row.date > long_ago
    assert "Cheap" not in shown(since=timezone.localdate().isoformat())


def test_searches_are_not_cached_and_choices_are(client, suite):
    assert "no-store" in client.get("/?q=e")["Cache-Control"]
    assert "no-store" in client.get("/?since=2026-01-01")["Cache-Control"]
    assert "no-store" not in client.get("/?provider=Banana&price=0.2").get("Cache-Control", "")


@pytest.mark.parametrize("address", ["/?format=csv&", "/api/v1/leaderboard?"])
def test_an_unknown_suite_shows_no_numbers_of_another_suite(client, suite, address):
    for name in ("nope-v9", "demo-v9"):
        assert client.get(f"{address}suite={name}").status_code == 404
    assert client.get(f"{address}suite=demo-v1").status_code == 200
    assert client.get("/board.png?suite=nope").status_code == 404
    assert client.get("/cite.bib?suite=nope").status_code == 404
    assert "Demo v1 is shown instead" in client.get("/?suite=nope").content.decode()


def test_a_missing_metric_of_the_suite_is_named(client, suite):
    words = "Demo v1 has no results by CLIP similarity yet; these are by"
    assert words in client.get("/?metric=clip").content.decode()
    answer = client.get("/?metric=clip&format=csv")
    assert answer.status_code == 422
    assert words in answer.content.decode()


def test_every_column_is_explained_in_its_header_and_in_the_legend(client, suite):
    page = client.get("/").content.decode()
    for head in heads(BoardFilters(suite), ()):
        for one in (head, *head.under):
            assert page.count(f'aria-describedby="about-{one.column.name}"') == 1
            assert page.count(f'id="about-{one.column.name}"') == 1


def test_only_the_self_test_is_called_a_self_test(client, suite):
    assert "self-test" not in client.get("/").content.decode()
    smoke = make_suite("smoke", images=1, importance=99)
    make_run("Only here", smoke, 2, rank=1)
    page = client.get("/").content.decode()
    assert "Smoke v1 is a self-test" in page
    assert "In this self-test, Only here" in page
    assert "No other suite has results" not in page
    Run.objects.exclude(suite=smoke).update(current=False, published=False)
    assert "No other suite has results" in client.get("/").content.decode()


def test_a_model_with_an_interval_as_long_as_the_scale_does_not_lead(client, suite):
    EditingModel.objects.exclude(name="Cheap").update(status=EditingModel.Status.HIDDEN)
    run = Run.objects.get(editing_model__name="Cheap")
    run.standings.update(rank=1)
    assert "Cheap leads" in client.get("/").content.decode()
    run.standings.update(usable_trips_low=0, usable_trips_high=20)
    run.editing_model.save()
    page = client.get("/").content.decode()
    assert "Cheap leads" not in page
    assert "too few cases to say that it leads" in page


def test_no_model_leads_on_a_filtered_board(client, suite):
    page = client.get("/", {"weights": "open", "price": "0.05"}).content.decode()
    assert "Of these models, Cheap lasts longest" in page
    assert "leads:" not in page


def test_a_headline_names_the_edits_that_were_not_made(client, suite):
    run = Run.objects.get(editing_model__name="Cheap")
    for standing in run.standings.all():
        standing.counts |= {"causes": {"not_made": 6}, "chains": 8}
        standing.save()
    page = client.get("/models/cheap/").content.decode()
    assert "The edit was not made in 6 of 8 chains." in page


def test_a_models_page_names_invalid_parameters(client, suite):
    page = client.get("/models/cheap/?metric=zz").content.decode()
    assert "Cheap has no results for “zz”" in page
    assert "has no results for" not in client.get("/models/cheap/?metric=lpips").content.decode()
