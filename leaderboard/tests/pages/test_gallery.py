from __future__ import annotations

import re

import pytest

from leaderboard.models import Chain, EditingModel, StoredImage, SuiteImage, Trip
from leaderboard.testing.boards import make_model, make_run, make_suite
from leaderboard.views import gallery

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite():
    suite = make_suite(images=10, trips=5)
    stored = StoredImage.objects.create(
        sha256="a" * 64, mime="image/png", width=64, height=48, bytes=9
    )
    SuiteImage.objects.update(stored=stored)
    for name, half_life in (("Bad", 1), ("Good", 30)):
        run = make_run(name, suite, half_life, chains=True)
        Trip.objects.bulk_create(
            Trip(chain=chain, number=n, edited=stored, restored=stored)
            for chain in run.chains.all()
            for n in range(1, 6)
        )
    make_run(make_model("Oracle", is_reference=True), suite, 1e6, chains=True)
    return suite


def models(page):
    return re.findall(r'<small><a href="/models/([\w-]+)/"', page)


def get(client, **query):
    answer = client.get("/gallery/", query)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_worst_chain_of_every_model_precedes_any_second_worst(client, suite):
    shown = models(get(client))
    assert len(shown) == gallery.SHOWN
    assert shown[:4] == ["bad", "good"] * 2
    best = models(get(client, order="best"))
    assert best[:4] == ["good", "bad"] * 2


def test_reference_editors_are_shown_if_chosen_or_if_there_is_no_model(client, suite):
    assert "oracle" not in models(get(client))
    assert set(models(get(client, model="references"))) == {"oracle"}
    EditingModel.objects.filter(is_reference=False).update(status=EditingModel.Status.HIDDEN)
    assert set(models(get(client))) == {"oracle"}


def test_each_filter_shows_only_matching_chains(client, suite):
    assert set(models(get(client, model="good"))) == {"good"}
    assert set(models(get(client, cause="whole"))) == {"bad"}
    assert set(models(get(client, cause="censored"))) == {"good"}
    assert models(get(client, cause="blank")) == []
    page = get(client, category="geometry", model="good")
    assert len(models(page)) == 10
    assert page.count("Flip left-right</a>") == 10


def test_pages_link_both_ways_and_show_every_strip_once(client, suite):
    seen, address = [], "/gallery/"
    while address:
        page = client.get(address).content.decode()
        seen += re.findall(r'<b><a href="(/runs/\d+/cases/\d+/)"', page)
        found = re.search(r'href="(\?[^"#]*)#filters"\s+rel="next', page)
        address = found and "/gallery/" + found[1].replace("&amp;", "&")
    assert len(seen) == len(set(seen)) == 80


@pytest.mark.parametrize("page", ["0", "-1", "99999999999", "x", "٣", "400"])
def test_no_page_number_breaks_the_gallery(client, suite, page):
    get(client, page=page)


def test_invalid_parameters_are_named_and_not_cached(client, suite):
    answer = client.get("/gallery/?suite=nope&cause=sleep&model=nobody")
    assert answer.content.decode().count("note warn") == 3
    assert "no-store" in answer["Cache-Control"]


def test_chains_state_what_ended_them(suite):
    chain = Chain.objects.filter(run__editing_model__slug="bad").first()
    chain.results = {}
    chain.summarise()
    assert (chain.cause, chain.usable_trips, chain.auc) == ("", None, None)
