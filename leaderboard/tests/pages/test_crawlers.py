from __future__ import annotations

import io

import pytest
from PIL import Image

from leaderboard.models import EditingModel
from leaderboard.testing.boards import make_model, make_run, make_suite

pytestmark = pytest.mark.django_db


def picture(client, query=""):
    response = client.get(f"/board.png{query}")
    assert response["Content-Type"] == "image/png"
    return Image.open(io.BytesIO(response.content))


def test_the_board_has_a_picture_even_when_it_is_empty(client):
    assert picture(client).size == (1200, 630)


def test_the_picture_shows_bars_and_survives_long_and_foreign_names(client):
    suite = make_suite(pictures=2)
    empty = picture(client).tobytes()
    make_run(make_model("W" * 120, slug="w"), suite, 4, rank=1)
    make_run(make_model("模型 <b>", slug="m"), suite, 1e6, rank=2)
    make_run("Zero", suite, 0)
    full = picture(client)
    assert full.size == (1200, 630)
    assert full.tobytes() != empty
    assert len(client.get("/board.png").content) < 60_000


def test_with_yardsticks_alone_the_picture_shows_them(client):
    suite = make_suite(pictures=2)
    before = picture(client).tobytes()
    make_run(make_model("Oracle", is_reference=True), suite)
    assert picture(client).tobytes() != before


def test_every_page_names_the_picture_for_those_who_share_it(client):
    assert "/board.png" in client.get("/").content.decode()


def test_robots_may_read_pages_but_not_every_way_of_sorting_them(client):
    text = client.get("/robots.txt").content.decode()
    assert "Disallow: /admin/" in text
    assert "Disallow: /*?*sort=" in text
    assert "Sitemap: http" in text


def test_the_sitemap_lists_public_models_and_nothing_hidden(client):
    suite = make_suite(pictures=1)
    make_run("Shown", suite)
    make_run("Draft", suite, published=False, current=False)
    make_run(make_model("Hidden", status=EditingModel.Status.HIDDEN), suite)
    xml = client.get("/sitemap.xml").content.decode()
    assert "/models/shown/" in xml
    assert "/suites/demo/1/" in xml
    assert "/methodology/" in xml
    assert "draft" not in xml
    assert "hidden" not in xml
