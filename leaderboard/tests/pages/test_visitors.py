"""Whose address counts, whatever a visitor or a proxy writes."""

from __future__ import annotations

from django.test import RequestFactory

from leaderboard.views.errors import server_error
from leaderboard.visitors import client_address

PEER = "198.51.100.9"


def asks(forwarded: str | None = None, peer: str = PEER):
    more = {} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded}
    return RequestFactory().get("/", REMOTE_ADDR=peer, **more)


def test_without_a_proxy_nobody_chooses_an_address(settings):
    settings.TRUSTED_PROXIES = 0
    request = asks("203.0.113.1")
    assert client_address(request) == PEER


def test_behind_proxies_the_outermost_trusted_one_tells(settings):
    settings.TRUSTED_PROXIES = 2
    assert client_address(asks("6.6.6.6, 203.0.113.1, 10.0.0.2")) == "203.0.113.1"
    assert client_address(asks("10.0.0.2")) == PEER


def test_what_is_no_address_is_never_stored_as_one(settings):
    settings.TRUSTED_PROXIES = 1
    assert client_address(asks("203.0.113.1:5000")) == PEER
    assert client_address(asks("unknown", peer="")) is None


def test_the_page_for_our_own_faults_needs_nothing_that_may_have_failed(rf):
    page = server_error(rf.get("/"))
    assert page.status_code == 500
    assert b"ConvergeBench" in page.content
