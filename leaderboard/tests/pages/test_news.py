"""News: records are written when the board changes, and give its history."""

from __future__ import annotations

import datetime
from xml.etree import ElementTree

import pytest
from django.utils import timezone

from leaderboard.models import BoardRecord, EditingModel, Run
from leaderboard.standings import refresh_ranks
from leaderboard.testing.boards import make_model, make_run, make_suite
from leaderboard.views import news

pytestmark = pytest.mark.django_db
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture
def suite():
    return make_suite(images=2, frozen_at=timezone.now() - datetime.timedelta(days=9))


def rank(run, number):
    run.standings.update(rank=number)


def age(days):
    """Let what was written so far have happened so many days ago."""
    BoardRecord.objects.update(at=timezone.now() - datetime.timedelta(days=days))


def test_a_record_is_written_for_each_change_and_for_nothing_else(suite):
    run = make_run("A", suite, 4)
    make_run(make_model("Oracle", is_reference=True), suite, 1e6)
    refresh_ranks(suite)
    refresh_ranks(suite)
    (first,) = BoardRecord.objects.all()
    assert (first.kind, first.run) == ("added", run)
    run.standings.filter(metric__name="overall").update(usable_trips=1.5)
    refresh_ranks(suite)
    again = make_run(run.editing_model, suite, 6)
    refresh_ranks(suite)
    Run.objects.filter(pk=again.pk).update(published=False)
    Run.objects.filter(pk=run.pk).update(published=False)
    refresh_ranks(suite)
    kinds = list(BoardRecord.objects.order_by("pk").values_list("kind", flat=True))
    assert kinds == ["added", "numbers", "again", "left"]


def test_sealed_suites_and_published_results_have_no_records():
    for fields in ({"sealed": True}, {"published_elsewhere": True}):
        suite = make_suite("-".join(fields), images=1, **fields)
        make_run(f"On {suite.slug}", suite, 3)
        refresh_ranks(suite)
    assert not BoardRecord.objects.exists()


def test_a_model_that_moves_is_listed_with_both_ranks(suite):
    run = make_run("Mover", suite, 4)
    row = BoardRecord(run=run, at=timezone.now(), usable_trips=4, half_life=4)
    for kind, now, before, words in (
        ("moved", 3, 1, "Mover falls from rank 1 to 3 on Demo v1"),
        ("moved", 1, 2, "Mover rises from rank 2 to 1 on Demo v1"),
        ("moved", None, 2, "Mover is no longer ranked on Demo v1"),
        ("moved", 2, None, "Mover is now ranked on Demo v1: rank 2"),
        ("added", 2, None, "Mover is new on Demo v1: rank 2, half-life 4.0"),
        ("again", 2, 1, "Mover was played again on Demo v1: rank 2 (before: 1), half-life 4.0"),
        ("left", None, 1, "Mover is no longer on Demo v1"),
    ):
        row.kind, row.rank, row.rank_before = kind, now, before
        assert news.sentence(row) == words


def test_the_page_and_the_feed_agree_and_show_nothing_hidden(client, suite):
    make_run("Shown", suite, 4)
    make_run("Secret", suite, 5)
    refresh_ranks(suite)
    EditingModel.objects.filter(name="Secret").update(status=EditingModel.Status.HIDDEN)
    page = client.get("/new/").content.decode()
    answer = client.get("/new/feed.atom")
    assert answer["Content-Type"].startswith("application/atom+xml")
    feed = ElementTree.fromstring(answer.content)
    titles = [entry.findtext(f"{ATOM}title") for entry in feed.iter(f"{ATOM}entry")]
    assert titles[0] == "Shown is new on Demo v1: not ranked, half-life 4.0"
    assert titles[1].startswith("Demo v1 is a new suite")
    for title in titles:
        assert title in page
    assert "Secret" not in page + answer.content.decode()
    of_model = client.get("/new/feed.atom?model=shown").content.decode()
    assert of_model.count("<entry>") == 1
    assert client.get("/new/feed.atom?model=secret").status_code == 404
    assert client.get("/new/feed.atom?suite=nope").status_code == 404
    assert "/new/feed.atom" in client.get("/").content.decode()


def test_the_board_of_another_day_is_as_it_was(client, suite):
    first = make_run("First", suite, 4)
    refresh_ranks(suite)
    age(20)
    make_run("Second", suite, 6)
    first.standings.filter(metric__name="overall").update(half_life=9, usable_trips=9)
    refresh_ranks(suite)
    today = timezone.localdate()
    before = today - datetime.timedelta(days=10)
    names = [row.run.editing_model.name for row in news.board_on(suite, before)]
    assert names == ["First"]
    assert [row.run.editing_model.name for row in news.board_on(suite, today)] == [
        "First",
        "Second",
    ]
    page = client.get(f"/new/board/?suite=demo-v1&date={before}").content.decode()
    assert ">4.0<" in page
    assert "Second" not in page
    assert ">9.0<" in client.get("/new/board/").content.decode()


@pytest.mark.parametrize(
    "date", ["yesterday", "2026-13-01", "9999-99-99", "", "2001-01-01", "2998-12-31"]
)
def test_no_day_breaks_the_page(client, suite, date):
    assert client.get("/new/board/", {"date": date}).status_code == 200


def test_a_models_page_draws_its_history_once_it_has_one(client, suite):
    run = make_run("A", suite, 4)
    refresh_ranks(suite)
    assert 'id="past"' not in client.get("/models/a/").content.decode()
    age(20)
    run.standings.filter(metric__name="overall").update(half_life=9, usable_trips=9)
    refresh_ranks(suite)
    assert 'id="past"' in client.get("/models/a/").content.decode()


def test_unknown_parameters_do_not_change_a_feed(client, suite):
    """A feed cached for one visitor is served to all others."""
    make_run("A", suite, 4)
    refresh_ranks(suite)
    page = client.get("/new/feed.atom?model=a&x=%3Cevil%3E").content.decode()
    assert "evil" not in page
    assert "/new/feed.atom?model=a" in page
    assert "evil" not in client.get("/new/feed.atom?model=a").content.decode()


def test_a_name_that_xml_cannot_carry_breaks_no_feed(client, suite):
    make_run("A\x0bB\x01", suite, 4)
    refresh_ranks(suite)
    feed = ElementTree.fromstring(client.get("/new/feed.atom").content)
    titles = [entry.findtext(f"{ATOM}title") for entry in feed.iter(f"{ATOM}entry")]
    assert any("AB is new" in title for title in titles)


def test_the_board_of_a_day_costs_as_much_after_many_changes(
    client, suite, django_assert_max_num_queries
):
    run = make_run("A", suite, 4)
    refresh_ranks(suite)
    (record,) = BoardRecord.objects.all()
    BoardRecord.objects.bulk_create(
        BoardRecord(run=run, at=record.at, kind="numbers", rank=n, usable_trips=n)
        for n in range(1, 400)
    )
    with django_assert_max_num_queries(4):
        (record,) = news.board_on(suite, timezone.localdate())
    assert record.rank == 399


def test_a_day_with_only_reference_editors_names_them(client):
    suite = make_suite(images=1)
    make_run(make_model("Oracle", is_reference=True), suite)
    today = client.get(f"/new/board/?suite={suite.key}").content.decode()
    assert "No model was ranked by that day" in today
    assert "had been measured: Oracle." in today
    before = client.get(f"/new/board/?suite={suite.key}&date=2020-01-01").content.decode()
    assert "Oracle" not in before
