from __future__ import annotations

import gzip
import pickle

import pytest
from django.core.cache import cache
from hypothesis import given
from hypothesis import strategies as st

from convergebench_site import caches
from leaderboard.models import Run
from leaderboard.testing.boards import make_run, make_suite

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite():
    suite = make_suite(images=2)
    make_run("First", suite, 4, rank=1)
    return suite


@pytest.mark.parametrize(
    "address", ["/", "/?sort=price", "/categories/", "/board.png", "/models/first/"]
)
def test_the_second_view_costs_one_query(client, suite, address, django_assert_num_queries):
    first = client.get(address)
    with django_assert_num_queries(1):
        assert client.get(address).content == first.content


def test_a_change_of_the_board_is_shown_at_once(client, suite):
    client.get("/")
    run = make_run("Second", suite, 9, rank=1)
    assert "Second" in client.get("/").content.decode()
    Run.objects.filter(pk=run.pk).update(published=False)
    assert "Second" not in client.get("/").content.decode()


def test_an_unchanged_page_is_answered_with_304(client, suite):
    tag = client.get("/")["ETag"]
    again = client.get("/", headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")
    make_run("Second", suite, 9)
    assert client.get("/", headers={"if-none-match": tag}).status_code == 200


def test_the_cached_page_is_the_same_compressed_and_plain(client, suite):
    plain = client.get("/", headers={"accept-encoding": "identity"})
    small = client.get("/", headers={"accept-encoding": "br, gzip"})
    assert small["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in small["Vary"]
    assert gzip.decompress(small.content) == plain.content
    assert "Content-Encoding" not in plain
    assert plain["Content-Security-Policy"]


def test_pages_with_different_parameters_are_cached_separately(client, suite):
    make_run("Second", suite, 9)
    sorted_by_name = client.get("/?sort=name").content
    assert client.get("/?sort=-name").content != sorted_by_name
    assert client.get("/?sort=name").content == sorted_by_name


def test_a_visitor_with_a_pending_message_gets_an_uncached_page(client, suite):
    client.get("/")
    client.cookies["messages"] = "anything"
    assert "Cache-Control" not in client.get("/")


@pytest.mark.parametrize(
    "address",
    [
        *("/", "/categories/", "/board.png", "/models/first/", "/models/first/?suite=nonsense"),
        *("/cases/{case}/", "/cases/{case}/?every=nonsense"),
    ],
)
def test_invalid_addresses_are_not_cached(client, suite, address):
    address = address.format(case=suite.cases.first().pk)
    address += "" if "?" in address else "?metric=nonsense"
    answer = client.get(address)
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    assert not cached_pages()


def test_repeating_a_parameter_caches_no_new_page(client, suite):
    client.get("/models/first/?metric=lpips")
    before = cached_pages()
    client.get("/models/first/?metric=a&metric=b&metric=lpips")
    assert before
    assert cached_pages() == before


def cached_pages():
    return {key for key in cache._cache if "page:" in key}


def test_head_is_answered_like_get_without_the_page(client, suite):
    response = client.head("/")
    assert response.status_code == 200
    assert not response.content


def test_an_invented_host_caches_no_new_page(client, suite, django_assert_num_queries):
    client.get("/")
    for host in ("testserver:81", "TESTSERVER", "testserver."):
        with django_assert_num_queries(1):
            assert client.get("/", headers={"host": host}).status_code == 200
    assert client.get("/", headers={"host": "elsewhere.example"}).status_code == 400


def test_cached_pages_are_limited_in_bytes(monkeypatch):
    monkeypatch.setattr(caches, "MAX_BYTES", 80_000)
    pages = caches.SizedCache("sized", {})
    for number in range(100):
        pages.set(f"page {number}", b"x" * 5_000)
        assert sum(map(len, pages._cache.values())) <= 80_000
    assert pages.get("page 99") == b"x" * 5_000
    assert pages.get("page 0") is None
    pages.set("page 99", b"x" * 50_000)
    assert pages.get("page 99") is None


@given(st.recursive(st.integers() | st.text() | st.binary() | st.none(), st.lists))
def test_a_shared_cache_stores_pages_and_counts_as_plain_text(value):
    serializer = caches.PlainSerializer()
    stored = serializer.dumps(value)
    assert serializer.loads(str(stored).encode() if isinstance(stored, int) else stored) == value


def test_a_shared_cache_runs_no_code():
    with pytest.raises(ValueError):
        caches.PlainSerializer().loads(pickle.dumps(print))
