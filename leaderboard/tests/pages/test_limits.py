"""Expensive requests have limits; every URL is either cheap or limited."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import RequestFactory
from django.urls import reverse

from leaderboard import page_cache, urls, visitors
from leaderboard.models import ContributedRun, Submission
from leaderboard.testing.boards import make_run, make_suite

pytestmark = pytest.mark.django_db

#: A few queries and a page of fixed size: tests/jobs/test_budgets.py has their budgets.
CHEAP = {
    *(
        "model",
        "run",
        "run_progress",
        "run_case",
        "suites",
        "suite_latest",
        "suite",
        "experiment_file",
        "experiment_table",
        "no_reference_table",
        "suite_file",
    ),
    *(
        "submission",
        "submission_state",
        "submission_image",
        "embargo",
        "uploaded_chain",
        "uploaded_chain_state",
        "contributed_run",
        "contributed_run_state",
    ),
    *(
        "cite",
        "badge",
        "run_record",
        "run_eval_results",
        "methodology",
        "about",
        "changelog",
        "image",
        "livez",
        "readyz",
    ),
    *("robots", "sitemap"),
    # Two queries for each ticket, and of those a session has ten.
    *("vote", "vote_answer", "vote_image", "vote_done"),
}


def test_every_address_is_cached_limited_or_cheap():
    named = {pattern.name: pattern for pattern in urls.urlpatterns if pattern.name}
    cached = {name for name, pattern in named.items() if hasattr(pattern.callback, "cache_options")}
    assert {"board", "case", "categories", "board_image"} <= cached
    assert page_cache.cached_page  # the decorator that marks them
    unknown = named.keys() - cached - visitors.LIMITS.keys() - CHEAP
    assert not unknown, f"cache or limit {unknown}, or list it as cheap"
    assert not CHEAP & visitors.LIMITS.keys()
    assert visitors.LIMITS.keys() - named.keys() == {"api", "api-token", "page"}


@pytest.fixture
def addresses():
    suite = make_suite(images=2)
    run = make_run("First", suite, 4)
    make_run("Second", suite, 9)
    stored = suite.images.first().stored
    contribution = ContributedRun.objects.create(name="Contributed")
    submission = Submission.objects.create(name="Submitted", contract="cog", suite=suite)
    return {
        "submit": ("post", reverse("submit")),
        "vote_session": ("vote", reverse("vote_session")),
        "submit_preview": ("post", reverse("submit_preview")),
        "upload_chain": ("post", reverse("upload_chain")),
        "contribute": ("post", reverse("contribute")),
        "withdraw_contributed_run": (
            "post",
            reverse("withdraw_contributed_run", args=[contribution.token]),
        ),
        "compare": ("get", reverse("compare") + "?models=first,second"),
        "compare_card": ("get", reverse("compare_card") + "?models=first,second"),
        "run_bundle": ("get", reverse("run_bundle", args=[run.pk])),
        "run_scores": ("get", reverse("run_scores", args=[run.pk, "csv"])),
        "run_quality": ("get", reverse("run_quality", args=[run.pk])),
        "suite_scores": ("get", reverse("suite_scores", args=[suite.slug, suite.version])),
        "board_then": ("get", reverse("board_then")),
        "page": ("get", reverse("board") + "?sort=nothing"),
        "jpeg": ("get", reverse("jpeg", args=[stored.pk if stored else "0" * 64, 50])),
        "submission_act": ("post", reverse("submission_act", args=[submission.token])),
        "api": ("get", "/api/v1/models"),
        "api-token": None,  # tests/api has it
    }


def test_each_limit_holds(client, addresses, monkeypatch):
    assert addresses.keys() == visitors.LIMITS.keys()
    monkeypatch.setattr(visitors, "LIMITS", dict.fromkeys(visitors.LIMITS, "1/h"))
    for name, request in addresses.items():
        if request is None:
            continue
        method, address = request
        if method == "vote":
            first, second = (
                client.post(address, '{"kind": "pair"}', content_type="application/json")
                for _ in range(2)
            )
        else:
            send = getattr(client, method)
            first, second = send(address), send(address)
        assert first.status_code != 429, name
        assert second.status_code == 429 or (name == "jpeg" and first.status_code == 200), name
        if second.status_code == 429:
            assert int(second["Retry-After"]) > 0


def test_a_whole_network_of_ipv6_shares_a_limit(client, monkeypatch):
    monkeypatch.setattr(visitors, "LIMITS", visitors.LIMITS | {"submit_preview": "2/h"})
    found = [
        client.post(reverse("submit_preview"), REMOTE_ADDR=f"2001:db8::{n}").status_code
        for n in range(1, 4)
    ]
    assert found == [200, 200, 429]
    elsewhere = client.post(reverse("submit_preview"), REMOTE_ADDR="2001:db8:0:1::1")
    assert elsewhere.status_code == 200


def test_pages_do_not_push_counters_out(client, monkeypatch):
    from django.core.cache import cache

    monkeypatch.setattr(visitors, "LIMITS", visitors.LIMITS | {"submit_preview": "1/h"})
    assert client.post(reverse("submit_preview")).status_code == 200
    for number in range(1_000):
        cache.set(f"page {number}", b"x")
    assert client.post(reverse("submit_preview")).status_code == 429


@pytest.mark.parametrize(
    ("address", "cookie"),
    [
        ("/board.png?sort=nothing{}", None),
        ("/models/first/card.png?suite=x{}", None),
        ("/gallery/?page=x{}", None),
        ("/?q=search{}", None),
        ("/", "messages"),
        ("/", "sessionid"),
    ],
)
def test_the_rate_of_uncached_pages_is_limited(client, addresses, monkeypatch, address, cookie):
    """Addresses without end, and cookies that ask for a page of one's own."""
    monkeypatch.setattr(visitors, "LIMITS", visitors.LIMITS | {"page": "3/h"})
    if cookie:
        client.cookies[cookie] = "made-up"
    found = [client.get(address.format(number)).status_code for number in range(5)]
    assert found == [200, 200, 200, 429, 429]
    client.cookies.clear()
    kept = client.get("/", REMOTE_ADDR="192.0.2.7")  # others are served,
    assert kept.status_code == 200
    assert client.get("/").status_code == 200  # and what is kept is for all


def test_one_password_for_many_names_locks_out_its_network(client, settings):
    settings.AXES_ENABLED = True
    User.objects.create_superuser("anna", password="right")

    def sign_in(name: str, password: str, address: str) -> int:
        data = {"username": name, "password": password}
        return client.post(reverse("admin:login"), data, REMOTE_ADDR=address).status_code

    assert sign_in("anna", "right", "192.0.2.7") == 302
    tries = [sign_in(f"name{number}", "Summer2026", "192.0.2.7") for number in range(10)]
    assert tries[:9] == [200] * 9
    assert sign_in("anna", "right", "192.0.2.7") == 429
    assert sign_in("anna", "right", "192.0.2.8") == 302


# Whose address counts, whatever a visitor or a proxy writes

PEER = "198.51.100.9"


def asks(forwarded: str | None = None, peer: str = PEER):
    more = {} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded}
    return RequestFactory().get("/", REMOTE_ADDR=peer, **more)


def test_without_a_proxy_visitors_cannot_choose_their_address(settings):
    settings.TRUSTED_PROXIES = 0
    request = asks("203.0.113.1")
    assert visitors.client_address(request) == PEER


def test_behind_proxies_the_outermost_trusted_proxy_names_the_visitor(settings):
    settings.TRUSTED_PROXIES = 2
    assert visitors.client_address(asks("6.6.6.6, 203.0.113.1, 10.0.0.2")) == "203.0.113.1"
    assert visitors.client_address(asks("10.0.0.2")) == PEER


def test_an_invalid_address_is_never_stored(settings):
    settings.TRUSTED_PROXIES = 1
    assert visitors.client_address(asks("203.0.113.1:5000")) == PEER
    assert visitors.client_address(asks("unknown", peer="")) is None
