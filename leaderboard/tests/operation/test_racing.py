"""A raced run: round by round, stopped when its rank is settled, and never passed for a whole one."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from evaluation.analysis.racing import Race
from leaderboard import jobs
from leaderboard.jobs import control, score_job
from leaderboard.models import Chain, EditingModel, MetricVersion, Run, Score, Suite, Trip
from leaderboard.models.runs import ChainState, Outcome, RunState
from leaderboard.standings import rebuild, refresh_ranks
from leaderboard.testing import factories
from leaderboard.testing.losing_runs import BLANK, TRIPS, losing_run, losing_suite

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics")]


@pytest.fixture
def suite() -> Suite:
    """A board of three models that keep 2, 5 and 9 trips or so."""
    suite = losing_suite(pictures=24)
    for name, loss in {"slow": 0.04, "middle": 0.1, "quick": 0.2}.items():
        losing_run(suite, name, loss, spread=0.1)
    refresh_ranks(suite)
    return suite


def raced(suite: Suite, race: Race) -> Run:
    model = EditingModel.objects.create(slug="new", name="New", editor="noise")
    run = jobs.start(model, suite, race=race, stop_after=0, secret="5" * 64)
    Run.objects.filter(pk=run.pk).update(
        state=RunState.PLAYING, metrics={"lpips": {"version": "1", "weights_sha256": ""}}
    )
    run.refresh_from_db()
    return run


def play_round(run: Run, loss: float) -> None:
    """Write what workers write when they have played and scored the chains that are ready."""
    metric, now = MetricVersion.objects.get(name="lpips"), timezone.now()
    for chain in run.chains.free().ready():
        for number in range(1, TRIPS + 1):
            seen = {"change_seen": True, "step": 0.01, "scored_at": now}
            trip = Trip.objects.create(chain=chain, number=number, from_source=0.01, **seen)
            kept = BLANK * min(1.2, loss * number * (1 + 0.01 * (chain.pk % 7)))
            Score.objects.create(trip=trip, metric=metric, distance=kept)
        Chain.objects.filter(pk=chain.pk).update(
            state=ChainState.PLAYED,
            outcome=Outcome.COMPLETED,
            trips_played=TRIPS,
            trips_scored=TRIPS,
        )


def race_to_its_end(run: Run, loss: float) -> int:
    """Rounds that were played."""
    for number in range(1, run.race["rounds"] + 1):
        play_round(run, loss)
        control.advance_race(run)
        run.refresh_from_db()
        if run.race_stopped or not run.chains.unplayed().exists():
            return number
    raise AssertionError("the race does not end")


def test_a_model_far_behind_is_out_after_a_few_rounds(suite: Suite) -> None:
    run = raced(suite, Race("top", 1, rounds=4))
    whole, cases = run.edits_total, run.chains_total
    assert race_to_its_end(run, loss=0.9) == 2
    assert run.state == RunState.SCORING
    assert run.race_looks[-1]["settled"] == "not in the top 1"
    assert (run.race_looks[-1]["low"], run.race_looks[-1]["high"]) == (4, 4)
    assert run.chains_total == run.chains.count() == cases // 2
    assert run.race_saved == whole - run.edits_total > 0
    low, high = run.race_looks[-1]["interval"]
    assert low <= run.race_looks[-1]["usable_trips"] <= high


def test_a_race_that_ended_early_is_listed_with_its_reason_and_not_ranked(
    suite: Suite, client: Any
) -> None:
    run = raced(suite, Race("top", 1, rounds=4))
    race_to_its_end(run, loss=0.9)
    rebuild(run)
    finished = {"state": RunState.FINISHED, "published": True, "finished_at": timezone.now()}
    Run.objects.filter(pk=run.pk).update(**finished)
    refresh_ranks(suite)
    run.refresh_from_db()
    why = "raced, stopped after round 2 of 4: not in the top 1 of the 4 models compared"
    assert (run.complete, run.is_ranked, run.unranked_reason) == (False, False, why)
    assert run.current  # there is no whole run of the model
    assert set(run.standings.values_list("rank", flat=True)) == {None}
    page = client.get(run.get_absolute_url()).content.decode()
    assert "stopped after round 2 of 4" in page
    assert f"{run.race_saved} edits were not asked for" in page


def test_a_whole_run_stands_for_its_model_even_if_it_is_older_than_a_race(suite: Suite) -> None:
    run = raced(suite, Race("top", 1, rounds=4))
    race_to_its_end(run, loss=0.9)
    model = EditingModel.objects.get(slug="middle")
    later = {"state": RunState.FINISHED, "published": True, "finished_at": timezone.now()}
    Run.objects.filter(pk=run.pk).update(editing_model=model, **later)
    refresh_ranks(suite)
    assert Run.objects.get(editing_model=model, current=True).race == {}


def test_a_model_beside_the_asked_rank_is_played_to_the_end(suite: Suite) -> None:
    run = raced(suite, Race("top", 2, rounds=4))
    assert race_to_its_end(run, loss=0.1) == 4
    assert not run.race_stopped
    assert [look["settled"] for look in run.race_looks] == ["", "", ""]


def test_two_workers_that_see_a_round_end_look_at_it_once(suite: Suite) -> None:
    run = raced(suite, Race("top", 1, rounds=4))
    play_round(run, 0.1)
    control.advance_race(run)
    control.advance_race(Run.objects.get(pk=run.pk))
    run.refresh_from_db()
    assert (run.race_round, len(run.race_looks)) == (2, 1)


def test_workers_play_a_race_round_by_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_job, "LINGER_SECONDS", 0)
    suite = factories.tiny_suite(pictures=2, trips=1)
    run = jobs.start(factories.editing_model(), suite, race=Race("top", 1, rounds=2))
    jobs.play(run.pk)
    assert set(run.chains.filter(state=ChainState.PLAYED).values_list("round", flat=True)) == {1}
    jobs.score(run.pk)
    run.refresh_from_db()
    assert (run.state, run.race_round) == (RunState.PLAYING, 2)
    jobs.play(run.pk)
    jobs.score(run.pk)
    run.refresh_from_db()
    assert (run.state, run.complete, run.race_stopped) == (RunState.FINISHED, True, False)


def test_a_yardstick_is_not_raced() -> None:
    model = factories.editing_model(is_reference=True)
    with pytest.raises(jobs.CannotMove, match="nothing to race for"):
        jobs.start(model, factories.tiny_suite(1), race=Race("top", 1))


def test_an_admin_asks_for_a_race_and_confirms_it(suite: Suite, admin_client: Any) -> None:
    model = factories.editing_model("new", "noise")
    url = reverse("admin:leaderboard_run_add")
    asked = {"editing_model": model.pk, "suite": suite.pk, "race_goal": "top"}
    lacking = admin_client.post(url, asked)
    assert "A race needs this number." in lacking.content.decode()
    asked |= {"race_number": 2, "race_rounds": 4}
    page = admin_client.post(url, asked).content.decode()
    assert "in 4 rounds, until it is known whether the model is in the top 2" in page
    admin_client.post(url, asked | {"confirmed": "Start the run"})
    run = Run.objects.get(editing_model=model)
    assert run.race == {"goal": "top", "number": 2, "rounds": 4}


def test_an_admin_cannot_race_a_model_against_nobody(admin_client: Any) -> None:
    asked = {
        "editing_model": factories.editing_model().pk,
        "suite": factories.tiny_suite(1).pk,
        "race_goal": "width",
        "race_number": 2,
        "race_rounds": 4,
    }
    page = admin_client.post(reverse("admin:leaderboard_run_add"), asked).content.decode()
    assert "No other model is ranked on this suite" in page
    assert not Run.objects.exists()
