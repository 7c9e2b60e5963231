"""From stored scores to the rows the board reads."""

from __future__ import annotations

import math

import pytest

from evaluation.analysis.thresholds import THRESHOLDS
from leaderboard.models import (
    Chain,
    Run,
    RunReview,
    Standing,
    Suite,
)
from leaderboard.models.runs import ChainState, Outcome
from leaderboard.standings import rebuild, refresh_ranks
from leaderboard.testing.losing_runs import TRIPS, losing_run, losing_suite

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite() -> Suite:
    return losing_suite()


def headline(run: Run, scope: str = "all", threshold: float = 0.5) -> Standing:
    return Standing.objects.get(run=run, metric__name="lpips", threshold=threshold, scope=scope)


def test_a_chain_that_loses_a_tenth_each_trip_is_usable_for_five(suite):
    standing = headline(losing_run(suite, "tenth", 0.1))
    assert standing.usable_trips == pytest.approx(5)
    assert (standing.usable_trips_low, standing.usable_trips_high) == pytest.approx((5, 5))
    assert standing.median == pytest.approx(5)
    # The exponential decay with as many usable trips of ten: U = (h / ln 2)(1 - 2^(-N/h)).
    h = standing.half_life
    assert h / math.log(2) * (1 - 2 ** (-TRIPS / h)) == pytest.approx(5)
    assert standing.incidence["whole"][4:6] == [0.0, 1.0]
    assert standing.curve["mean"][:3] == [1.0, 0.9, 0.8]
    assert standing.curve["shown"][1] == pytest.approx(0.08, abs=1e-4)
    assert standing.counts["causes"]["whole"] == 24
    assert standing.details["dynamics"]["chains"] == 24
    assert standing.details["jpeg"]["1"] > standing.details["jpeg"]["3"]


def test_every_scope_and_threshold_has_its_row_and_an_unrun_metric_has_none(suite):
    run = losing_run(suite, "m", 0.1)
    scopes = {"all", "category:accessories", "category:objects", "kind:face", "kind:scene"}
    scopes |= {f"pair:{thing}-{n}" for thing in ("hat", "ball") for n in range(6)}
    rows = set(run.standings.values_list("scope", "threshold"))
    assert rows == {(scope, threshold) for scope in scopes for threshold in THRESHOLDS}
    assert not run.standings.filter(metric__name="clip").exists()


def test_an_unreached_half_life_is_none_and_has_an_interval_all_the_same(suite):
    standing = headline(losing_run(suite, "slow", 0.01))
    assert standing.half_life is None
    assert standing.has_interval
    assert standing.usable_trips == TRIPS


def test_rebuilding_changes_nothing(suite):
    run = losing_run(suite, "m", 0.1, spread=0.3)
    before = list(
        run.standings.order_by("scope", "threshold").values_list("half_life_low", "auc", "scope")
    )
    rebuild(run)
    after = list(
        run.standings.order_by("scope", "threshold").values_list("half_life_low", "auc", "scope")
    )
    assert before == after


def test_models_that_cannot_be_told_apart_share_a_rank_and_reference_editors_have_none(suite):
    good = losing_run(suite, "good", 0.05, spread=0.05)
    twin = losing_run(suite, "twin!", 0.05, spread=0.05)
    bad = losing_run(suite, "bad", 0.3, spread=0.05)
    reference = losing_run(suite, "oracle", 0.0, is_reference=True)
    refresh_ranks(suite)
    assert headline(good).rank == headline(twin).rank == 1
    assert headline(bad).rank == 3
    assert headline(reference).rank is None
    assert headline(good).p_first + headline(twin).p_first == pytest.approx(1, abs=0.01)
    assert headline(bad).rank_low == headline(bad).rank_high == 3


def test_an_incomplete_run_is_listed_but_not_ranked(suite):
    run = losing_run(suite, "part", 0.05)
    losing_run(suite, "whole", 0.1)
    Chain.objects.filter(run=run).first().delete()
    rebuild(run)
    refresh_ranks(suite)
    run.refresh_from_db()
    assert run.current
    assert not run.complete
    assert headline(run).rank is None


def test_a_flagged_run_is_ranked_only_once_an_admin_clears_it(suite):
    run = losing_run(suite, "odd", 0.05)
    RunReview.objects.filter(pk=run.pk).update(flags=[{"kind": "equals_source"}])
    refresh_ranks(suite)
    assert headline(run).rank is None
    RunReview.objects.filter(pk=run.pk).update(cleared=True)
    refresh_ranks(suite)
    assert headline(run).rank == 1


def test_the_newest_finished_public_run_stands_for_its_model(suite):
    old = losing_run(suite, "m", 0.2)
    entry = old.editing_model
    new = losing_run(suite, "other", 0.1)
    Run.objects.filter(pk=new.pk).update(editing_model=entry)
    refresh_ranks(suite)
    old.refresh_from_db()
    new.refresh_from_db()
    assert (old.current, new.current) == (False, True)
    Run.objects.filter(pk=new.pk).update(published=False)
    refresh_ranks(suite)
    old.refresh_from_db()
    assert old.current


def test_a_broken_chain_and_an_unseen_change_end_where_they_happened(suite):
    run = losing_run(suite, "m", 0.0)
    first, second = Chain.objects.filter(run=run)[:2]
    first.trips.filter(number__gte=4).delete()
    Chain.objects.filter(pk=first.pk).update(outcome=Outcome.REFUSED)
    second.trips.filter(number=3).update(change_seen=False)
    rebuild(run)
    first.refresh_from_db()
    second.refresh_from_db()
    assert first.results["lpips"]["events"]["0.5"] == {"time": 3.0, "cause": "refused"}
    assert second.results["lpips"]["events"]["0.5"] == {"time": 2.0, "cause": "not_made"}
    counts = headline(run).counts
    assert (counts["refused"], counts["change_not_seen"]) == (1, 1)


def test_a_run_still_playing_is_censored_where_it_stands(suite):
    run = losing_run(suite, "m", 0.02)
    chain = Chain.objects.filter(run=run).first()
    chain.trips.filter(number__gte=5).delete()
    Chain.objects.filter(pk=chain.pk).update(state=ChainState.PLAYING, outcome="")
    rebuild(run)
    chain.refresh_from_db()
    assert chain.results["lpips"]["events"]["0.5"] == {"time": 4.0, "cause": "lost"}
