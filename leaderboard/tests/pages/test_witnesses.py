"""How models fail, which witnesses saw it, and how reliable the judge is."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from evaluation.estimate import duration
from evaluation.testing.fake_providers.judge import KEY, FakeJudge
from evaluation.witnesses.judge import max_calls
from leaderboard.formatting import percent, usd
from leaderboard.models import Chain, JudgeAnswer, Run, Standing, Trip
from leaderboard.models.runs import RunState
from leaderboard.pages.strips import Frame
from leaderboard.testing import factories
from leaderboard.testing.played import play

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics")]


@pytest.fixture
def judged(settings, monkeypatch):
    """Plays a run with a judge that behaves so."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("evaluation.witnesses.judge.ATTEMPTS", 1)

    def run(case):
        with FakeJudge(case) as fake:
            settings.JUDGE_MODEL, settings.JUDGE_KEY = "fake-vlm", KEY
            settings.JUDGE_URL = fake.server.url + "/v1"
            found = play("noise", factories.tiny_suite(trips=2), name="Noise")
            return Run.objects.get(pk=found.pk), fake

    return run


def judge_said(run):
    trips = Trip.objects.filter(chain__run=run)
    return [one for trip in trips for one in trip.evidence if one["witness"] == "judge"]


def test_a_judges_answer_is_stored_shown_and_paid_for_once(client, judged):
    run, fake = judged("prefers-first")
    assert run.state == RunState.FINISHED
    assert judge_said(run)
    assert run.judge_answers.count() == len(fake.bodies) == run.provenance["judge"]["calls"]
    assert 0 < len(fake.bodies) <= max_calls(run.progress.chains_total, run.suite.trips)
    rated = run.standings.filter(scope="all")[0].counts["rubric"]
    assert (rated["cases"], rated["judge"]) == (4, run.provenance["judge"]["version"])
    assert rated["score"] == pytest.approx(0.85 * 0.8 + 0.15 * 0.6)
    page = client.get(reverse("model", args=[run.editing_model.slug])).content.decode()
    assert "The judge" in page
    # Without votes the judge's ratings are not shown yet.
    assert "its agreement with people is not measured yet" in page
    assert 'data-label="Edit quality"' not in client.get("/").content.decode()
    assert f"chose the first one in {percent(1.0)}" in page
    assert KEY not in page
    # It was asked outright of the source and of both restored images, and the page of such answers
    # tells.
    assert all(None not in chain.quality["worn"] for chain in run.chains.all())
    page = client.get(reverse("no_reference")).content.decode()
    assert "False alarms" in page
    assert run.provenance["judge"]["version"] in page


@pytest.mark.parametrize("case", ["down", "nonsense", "refusal", "yes"])
def test_a_judge_that_fails_or_errs_does_not_fail_the_run(client, judged, case):
    run, _ = judged(case)
    assert run.state == RunState.FINISHED
    assert judge_said(run) == [] or case == "yes"
    assert not any(one["made"] for one in judge_said(run))
    assert client.get(reverse("model", args=[run.editing_model.slug])).status_code == 200


def test_chains_can_be_filtered_by_their_cause(client):
    run = play("noise", factories.tiny_suite(trips=2), name="Noise")
    first, second, *_ = run.chains.all()
    Chain.objects.filter(run=run).update(cause="grain")
    Chain.objects.filter(pk=first.pk).update(cause="object")
    url = run.get_absolute_url()
    every = client.get(url).content.decode()
    assert first.get_absolute_url() in every
    assert second.get_absolute_url() in every
    some = client.get(f"{url}?cause=object").content.decode()
    assert first.get_absolute_url() in some
    assert second.get_absolute_url() not in some
    assert (
        "No chain of this run ended in this way"
        in client.get(f"{url}?cause=framing").content.decode()
    )
    assert second.get_absolute_url() in client.get(f"{url}?cause=%27x").content.decode()


def test_witnesses_are_listed_on_the_models_page(client):
    run = play("noise", factories.tiny_suite(trips=2), name="Noise")
    for standing in run.standings.filter(scope="all"):
        standing.details |= {
            "witnesses": {"accessories": {"parsing": {"made": [3, 4], "undone": [3, 3]}}},
        }
        standing.save()
    page = client.get(reverse("model", args=[run.editing_model.slug])).content.decode()
    assert "Face parsing" in page
    assert f"{percent(0.75)} of 4" in page
    assert Standing.objects.filter(run=run).exists()


def test_a_strip_reports_missing_and_changed_persons():
    said = {"made": None, "undone": None, "gates": False}
    gone = {**said, "witness": "rest", "thing": "x", "kept": False, "said": "chair gone"}
    same = {**said, "witness": "identity", "thing": "the same person", "kept": True, "said": "0.3"}
    there = {**said, "witness": "rest", "thing": "x", "kept": True, "said": ""}
    faceless = {**same, "kept": False, "said": "no face"}
    frame = Frame(Trip(number=1, evidence=[gone, same, there, faceless]), 1, "", None)
    assert frame.unasked_changes == [
        ("chair gone, by an object detector", False),
        ("the same person (0.3), by face recognition", True),
        ("no face is left, by face recognition", False),
    ]


def test_the_method_states_the_abilities_and_error_rates_of_witnesses(client):
    page = client.get(reverse("methodology")).content.decode()
    assert 'id="witnesses"' in page
    assert "glasses, hats, earrings and necklaces on an annotated face" in page
    assert "a red ball instead" in page
    assert "The rows “on the real chain” come from <b>one chain</b>" in page
    assert "hat undone? (on the real chain)" in page


def test_the_page_of_an_unjudged_model_states_the_cost_of_judging(client, judged):
    plain = play("noise", factories.tiny_suite(trips=2), name="Plain")
    page = client.get(reverse("model", args=[plain.editing_model.slug])).content.decode()
    calls = max_calls(plain.progress.chains_total, 2)
    assert f"a judge model would need up to {calls:,} calls and" in page  # no price is known yet
    judge = {"run": plain, "question": "trip", "version": "other", "outcome": "answered"}
    for number in range(4):
        JudgeAnswer.objects.create(**judge, key=str(number), cost=0.5, seconds=2.0)
    Run.objects.update(finished_at=timezone.now())
    page = client.get(reverse("model", args=[plain.editing_model.slug])).content.decode()
    assert f"calls, about {usd(calls * 0.5)}, and {duration(calls * 2)}" in page
