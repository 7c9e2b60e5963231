"""Files for crawlers."""

from __future__ import annotations

import pytest
from django.test import RequestFactory

from leaderboard.models import EditingModel
from leaderboard.testing.boards import make_model, make_run, make_suite
from leaderboard.views.site import server_error

pytestmark = pytest.mark.django_db


def test_robots_may_read_pages_but_not_every_way_of_sorting_them(client):
    text = client.get("/robots.txt").content.decode()
    assert "Disallow: /admin/" in text
    assert "Disallow: /*?*sort=" in text
    assert "Sitemap: http" in text


def test_the_sitemap_lists_public_models_and_nothing_hidden(client):
    suite = make_suite(images=1)
    make_run("Shown", suite)
    make_run("Draft", suite, published=False, current=False)
    make_run(make_model("Hidden", status=EditingModel.Status.HIDDEN), suite)
    xml = client.get("/sitemap.xml").content.decode()
    assert "/models/shown/" in xml
    assert "/suites/demo/1/" in xml
    assert "/methodology/" in xml
    assert "draft" not in xml
    assert "hidden" not in xml


def test_the_error_page_needs_no_static_files(settings, tmp_path):
    """A site whose static files were never collected must still report its own errors."""
    settings.STATIC_ROOT = tmp_path
    files = {"BACKEND": "convergebench_site.storage.StaticFiles"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": files}
    answer = server_error(RequestFactory().get("/"))
    assert answer.status_code == 500
    assert "Something broke on our side" in answer.content.decode()
