"""Reports on a suite: its statistical power, and how robust its order is."""

from __future__ import annotations

import pytest
from django.urls import reverse

from evaluation.analysis.half_life import METHOD_VERSION
from leaderboard import jobs
from leaderboard.models import Chain, Score, SuiteReport, Trip
from leaderboard.models.runs import Outcome
from leaderboard.standings import rebuild, refresh_ranks, reports
from leaderboard.testing.losing_runs import BLANK, losing_run, losing_suite

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite():
    return losing_suite()


def page(client, address, **query):
    response = client.get(address, query)
    assert response.status_code == 200
    return response.content.decode()


def test_orders_by_other_thresholds_and_without_parts_are_compared_with_the_board(suite):
    for name, loss in (("good", 0.03), ("middle", 0.08), ("bad", 0.2)):
        losing_run(suite, name, loss, spread=0.05)
    refresh_ranks(suite)
    jobs.export(suite.pk)
    report = SuiteReport.objects.get(suite=suite)
    taus = {(row["about"], row["choice"]): row["tau"] for row in report.robustness["agreements"]}
    assert report.robustness["runs"] == 3
    assert taus["threshold", "0.75"] == 1
    assert taus["category", "accessories"] == 1
    assert taus["pair", "hat-0"] == 1
    assert {about for about, _ in taus} == {"threshold", "trips", "category", "kind", "pair"}


def test_a_category_that_reverses_the_order_is_found(client, suite):
    """One model keeps hats and loses balls. The other does the reverse, and keeps a little more."""
    runs = [losing_run(suite, name, 0.05) for name in ("hats", "balls")]
    for run, weak in zip(runs, ("objects", "accessories"), strict=True):
        scores = Score.objects.filter(trip__chain__run=run, trip__chain__case__category=weak)
        for score in scores.select_related("trip"):
            loss = 0.3 if run is runs[0] else 0.2
            score.distance = BLANK * min(1.2, loss * score.trip.number)
            score.save()
        rebuild(run)
    refresh_ranks(suite)
    reports.write(suite)
    report = SuiteReport.objects.get(suite=suite)
    taus = {(row["about"], row["choice"]): row["tau"] for row in report.robustness["agreements"]}
    assert taus["category", "objects"] == -1
    html = page(client, reverse("robustness"))
    assert "The order changes most without one" in html
    assert "−1.00" in html


def test_a_report_is_written_if_missing_or_if_ranks_changed(suite):
    assert reports.stale() == [suite]
    jobs.export(suite.pk)
    assert reports.stale() == []
    losing_run(suite, "new", 0.1)
    refresh_ranks(suite)
    assert reports.stale() == [suite]
    jobs.export(suite.pk)
    SuiteReport.objects.update(method_version="1")
    assert reports.stale() == [suite]


def test_the_suites_page_states_its_statistical_power(client, suite):
    jobs.export(suite.pk)
    power = SuiteReport.objects.get(suite=suite).power
    assert 0 < power["models_alike"] < power["models_differ"] < suite.trips
    html = page(client, suite.get_absolute_url())
    assert f"{power['models_alike']:.1f} usable trips" in html


def test_repeated_cases_show_the_effect_of_another_run(suite):
    runs = [losing_run(suite, name, loss) for name, loss in (("a", 0.05), ("b", 0.2))]
    for run in runs:
        for chain in list(run.chains.all()[:6]):
            trips = list(chain.trips.all())
            chain.pk, chain.repeat, chain.token = None, 1, None
            chain.save()
            Trip.objects.bulk_create(
                Trip(chain=chain, number=t.number, change_seen=True, step=0.01, from_source=0.1)
                for t in trips
            )
            metric = Score.objects.first().metric
            Score.objects.bulk_create(
                Score(trip=trip, metric=metric, distance=BLANK * min(1.2, 0.1 * trip.number))
                for trip in chain.trips.all()
            )
        rebuild(run)
    refresh_ranks(suite)
    reports.write(suite)
    again = SuiteReport.objects.get(suite=suite).robustness["retest"]
    assert (again["repeats"], again["cases"], again["runs"]) == (2, 6, 2)
    assert again["difference"] == pytest.approx((5 + 2.5) / 2)


def test_the_models_page_shows_each_kind_of_ending_with_an_example(client, suite):
    run = losing_run(suite, "m", 0.1)
    first, second = Chain.objects.filter(run=run)[:2]
    first.trips.filter(number__gte=4).delete()
    Chain.objects.filter(pk=first.pk).update(outcome=Outcome.REFUSED)
    second.trips.filter(number=3).update(change_seen=False)
    rebuild(run)
    refresh_ranks(suite)
    html = page(client, reverse("model", args=["m"]))
    assert "How chains end" in html
    for words in ("The whole image lost quality", "The model refused", "The edit was not made"):
        assert words in html
    assert f"/runs/{run.pk}/cases/{first.case_id}/" in html
    assert "most often because the whole image lost quality" in html


def test_standings_store_the_version_of_the_method(suite):
    run = losing_run(suite, "m", 0.1)
    assert set(run.standings.values_list("method_version", flat=True)) == {METHOD_VERSION}
