"""The page of a run: while it plays, and when it has ended."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import Call, Run, RunProgress
from leaderboard.models.runs import RunState
from leaderboard.pages import run_page
from leaderboard.testing import factories
from leaderboard.testing.boards import make_run, make_suite
from leaderboard.testing.played import once, play

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script>" + "&" * 470


@pytest.fixture(autouse=True)
def _quick(quick_metrics):
    run_page._workers.clear()


@pytest.fixture(scope="module")
def played(django_db_setup, django_db_blocker):
    yield from once(
        django_db_blocker,
        lambda: play("noise", factories.tiny_suite(slug="shared"), is_reference=True).pk,
    )


@pytest.fixture
def half_way(db, played):
    """A reference editor whose run was played and scored, a moment before it is finalised."""
    run = Run.objects.select_related("editing_model", "suite").get(pk=played)
    run.standings.all().delete()
    Run.objects.filter(pk=run.pk).update(state=RunState.SCORING, published=False, current=False)
    run.refresh_from_db()
    return run


def page_of(client, run, query=""):
    response = client.get(run.get_absolute_url() + query)
    assert response.status_code == 200
    return response.content.decode()


def polled(client, run, **headers):
    return client.get(reverse("run_progress", args=[run.pk]), headers=headers)


def test_a_run_under_way_shows_how_far_it_is_and_its_curve_so_far(client, half_way):
    page = page_of(client, half_way)
    assert "The restored images are being scored." in page
    assert "24 of 24" in page
    assert "mean of the restored images scored so far" in page
    live = polled(client, half_way).json()
    assert live["path"].startswith("M0 0.0L100 ")
    assert [chains for _, chains in live["curve"]] == [4, 4, 4]
    assert all(kept < 1 for kept, _ in live["curve"])
    assert 0.9 <= live["done"] <= 1


def test_the_curve_so_far_is_the_mean_that_the_chains_have(client, half_way):
    live = polled(client, half_way).json()
    chains = half_way.chains.all()
    for place, (kept, _) in enumerate(live["curve"]):
        own = [chain.retention("ssim")[place] for chain in chains]
        assert kept == pytest.approx(sum(own) / len(own), abs=6e-4)


def test_every_state_is_described_with_the_next_step(client, half_way):
    when = timezone.now() + timedelta(hours=2)
    for state in RunState.values:
        Run.objects.filter(pk=half_way.pk).update(
            state=state, reason_text="Out of credit", resume_at=when if state == "paused" else None
        )
        half_way.refresh_from_db()
        live = run_page.live(half_way)
        assert live["lines"]["now"]
        assert live["ended"] is (state in ("finished", "failed", "cancelled"))
        assert bool(live["lines"]["why"]) is (state in ("paused", "failed"))
        if state == "paused":
            assert f"{when:%H:%M} UTC" in live["lines"]["next"]
            half_way.resume_at = None
            assert "An administrator is notified" in run_page.live(half_way)["lines"]["next"]
        assert page_of(client, half_way)


def test_a_poll_is_small_even_with_long_messages_and_a_hundred_trips(client, half_way):
    Run.objects.filter(pk=half_way.pk).update(state=RunState.PAUSED, reason_text=HOSTILE[:480])
    RunProgress.objects.filter(pk=half_way.pk).update(last_error=HOSTILE[:480])
    cache.set(
        f"curve-so-far/{half_way.pk}/{half_way.progress.trips_scored}",
        {"metric": "LPIPS", "curve": [(0.123, 999)] * 20, "path": "M" + "L300 100.0" * 20},
    )
    response = polled(client, half_way)
    assert len(response.content) < 2048
    assert response.json()["lines"]["error"].startswith("<script>")
    page = page_of(client, half_way)
    assert "<script>alert" not in page


def test_an_unchanged_poll_is_answered_with_304(client, half_way):
    first = polled(client, half_way)
    assert first["ETag"]
    assert "no-cache" in first["Cache-Control"]
    again = polled(client, half_way, if_none_match=first["ETag"])
    assert again.status_code == 304
    assert again.content == b""
    RunProgress.objects.filter(pk=half_way.pk).update(edits_done=11)
    assert polled(client, half_way, if_none_match=first["ETag"]).status_code == 200


def test_a_poll_needs_few_queries(client, half_way, django_assert_max_num_queries):
    Run.objects.filter(pk=half_way.pk).update(state=RunState.PLAYING)
    with django_assert_max_num_queries(6):
        polled(client, half_way)
    with django_assert_max_num_queries(4):
        polled(client, half_way)


def test_without_a_queue_the_page_states_that_the_run_is_safe(client, half_way, valkey):
    valkey.kill()
    run_page._workers.clear()
    Run.objects.filter(pk=half_way.pk).update(state=RunState.QUEUED)
    assert "the queue does not answer" in polled(client, half_way).json()["lines"]["workers"]


def test_the_page_reports_that_no_worker_is_running(client, half_way, valkey):
    Run.objects.filter(pk=half_way.pk).update(state=RunState.QUEUED)
    lines = polled(client, half_way).json()["lines"]
    assert lines["workers"] == "no worker is running; the run continues when one starts"
    assert lines["queue"] == "place 1"


def test_a_finished_run_lists_its_chains_with_links_to_their_strips(client, played):
    run = Run.objects.get(pk=played)
    page = page_of(client, run)
    for chain in run.chains.all():
        assert chain.get_absolute_url() in page
    assert "Calls to the model" in page
    assert "24 calls, 0 of them retries" in page
    assert 'id="live"' not in page
    assert "run.js" not in page


def test_the_ledger_counts_retries_and_money(client, played):
    run = Run.objects.get(pk=played)
    chain = run.chains.first()
    Call.objects.create(
        run=run,
        chain=chain,
        number=1,
        direction="forward",
        attempt=2,
        outcome="rate_limited",
        cost="0.04",
        started_at=timezone.now(),
    )
    page = page_of(client, run)
    assert "25 calls, 1 of them retries" in page
    assert "rate_limited" in page
    assert "$0.04" in page


def test_chains_are_ordered_as_requested(client, played):
    run = Run.objects.get(pk=played)

    def order(query):
        page = page_of(client, run, query)
        return sorted(run.chains.all(), key=lambda chain: page.index(chain.get_absolute_url()))

    worst, best = order(""), order("?order=best")
    assert worst == best[::-1]
    assert [c.pk for c in order("?order=suite")] == [c.pk for c in run.chains.all()]
    page_of(client, run, "?order=nonsense&page=999")


def test_many_chains_come_in_pages_with_a_constant_number_of_queries(
    client, django_assert_max_num_queries, monkeypatch
):
    monkeypatch.setattr("leaderboard.views.runs.PAGE_SIZE", 10)
    run = make_run("Model", make_suite(images=8), chains=True)
    with django_assert_max_num_queries(10):
        page = page_of(client, run, "?page=2")
    assert "Page 2 of 4" in page
    assert page.count("/cases/") == 10


def test_a_run_published_elsewhere_has_no_chains_and_no_error(client):
    run = make_run("Theirs", make_suite(), source="published")
    page = page_of(client, run)
    assert "its numbers were published elsewhere" in page
    assert "This run was not played here." in page
