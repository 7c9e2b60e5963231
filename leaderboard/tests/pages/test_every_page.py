"""Every public page: empty, with hostile names, unknown addresses and private runs."""

from __future__ import annotations

import pytest
from django.urls import reverse

from leaderboard.models import Run, Suite
from leaderboard.testing import factories
from leaderboard.testing.boards import make_model, make_run, make_suite

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
HOSTILE = '<script>alert(1)</script>"&\u202e'
SCOPES = ("all", "category:geometry", "kind:face", "pair:hat")


def page(client, address):
    response = client.get(address)
    assert response.status_code == 200, address
    return response.content.decode()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/", "load_benchmark"),
        ("/categories/", "Results by category appear here"),
        ("/compare/", "nothing to compare yet"),
        ("/value/", "Nothing to compare yet"),
        ("/suites/", "load_benchmark"),
        ("/changelog/", "No suite is frozen yet"),
        ("/robustness/", "No suite has been loaded"),
        ("/no-reference/", "No suite has been loaded"),
        ("/tour/", "appears here when a run has ended"),
        ("/embed/board/", "No model is ranked"),
        ("/embed/chart/", "chart appears here"),
    ],
)
def test_an_empty_site_explains_what_is_missing(client, address, words):
    assert words in page(client, address)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/", "No model is ranked here yet"),
        ("/categories/", "No results to break down yet"),
        ("/compare/", "nothing to compare yet"),
        ("/robustness/?suite=nonsense", "needs two finished runs"),
        ("/tour/", "appears here when a run has ended"),
    ],
)
def test_a_suite_without_results_explains_what_is_missing(client, address, words):
    make_suite(images=1)
    assert words in page(client, address)


@pytest.mark.parametrize("address", ["/", "/categories/", "/value/", "/compare/"])
def test_unknown_values_of_an_address_are_ignored_and_named(client, address):
    make_run(make_model("Lasting", price_per_edit="0.1"), make_suite(images=1), scopes=SCOPES)
    html = page(client, f"{address}?metric=%3Cscript%3E&threshold=7&sort=x&suite=none&cases=pair:q")
    assert html.count("note warn") == 5
    assert "<script>" not in html.replace('<script type="module"', "")
    assert "Lasting" in html


def test_untrusted_names_and_texts_are_escaped(client):
    suite = factories.tiny_suite()
    Suite.objects.update(title=HOSTILE, description=HOSTILE)
    suite.images.update(title=HOSTILE, attribution=HOSTILE, licence=HOSTILE)
    suite.cases.update(forward=HOSTILE, backward=HOSTILE, pair_title=HOSTILE)
    suite.refresh_from_db()
    fields = {"notes": HOSTILE, "organisation": HOSTILE, "provider": HOSTILE}
    for slug in ("hostile", "other"):
        model = make_model(HOSTILE, slug=slug, **fields)
        run = make_run(model, suite, scopes=SCOPES, chains=True, rank=1)
    addresses = [
        *("/", "/categories/", "/value/", "/gallery/", "/new/", "/suites/", "/changelog/"),
        *("/models/hostile/", "/compare/?models=hostile,other", "/embed/board/"),
        *(suite.get_absolute_url(), suite.cases.first().get_absolute_url()),
        *(run.get_absolute_url(), run.chains.first().get_absolute_url()),
    ]
    for address in addresses:
        html = page(client, address)
        assert "<script>alert" not in html, address
        assert "&lt;script&gt;alert(1)" in html, address


def test_a_private_run_is_visible_to_staff_only(client, admin_client):
    run = make_run("Private", make_suite(images=1), chains=True)
    Run.objects.update(published=False)
    for address in (
        run.get_absolute_url(),
        reverse("run_progress", args=[run.pk]),
        run.chains.first().get_absolute_url(),
    ):
        assert client.get(address).status_code == 404, address
        assert admin_client.get(address).status_code == 200, address
    for address in ("/", "/gallery/", run.chains.first().case.get_absolute_url()):
        assert "Private" not in page(client, address)
    assert "No run yet" in page(client, "/models/private/")
    assert run.get_absolute_url() in page(admin_client, "/models/private/")
