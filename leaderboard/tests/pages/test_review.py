"""How often a model was tried is told: the best of many tries looks better than it is."""

from __future__ import annotations

import pytest

from evaluation.metrics import HEADLINE
from leaderboard import jobs
from leaderboard.models import Run, Standing, Submission, Suite
from leaderboard.pages.review import Tried, Tries, open_against_sealed, tries
from leaderboard.testing import factories
from leaderboard.testing.boards import make_model, make_run, make_suite

pytestmark = pytest.mark.django_db


def model(slug: str, url: str = "", organisation: str = "") -> factories.EditingModel:
    options = {"url": url} if url else {}
    return factories.editing_model(slug, "endpoint", options=options, organisation=organisation)


def test_runs_of_a_model_an_address_and_an_organisation_are_counted(suite):
    one = model("one", "https://API.example.com/v1", "Example Labs")
    two = model("two", "https://api.example.com/v2")
    three = model("three", "https://other.example.org/v1", "example labs")
    for played, times in ((one, 2), (two, 3), (three, 1), (model("alone"), 1)):
        for _ in range(times):
            jobs.start(played, suite)
    assert tries(one, suite).runs == Tried(2, 5, 3)
    Run.objects.filter(editing_model=two).update(source=Run.Source.EXTERNAL)
    assert tries(one, suite).runs == Tried(2, 2, 3)


def test_submissions_are_counted_whatever_became_of_them(suite, client):
    one = model("one", "https://API.example.com/v1", "Example Labs")
    run = jobs.start(one, suite)
    assert tries(one, suite).submissions == Tried(0, 0, 0)
    for name, address, who, state in (
        ("ONE", "https://api.example.com/v1", "Example Labs", "approved"),
        ("one", "https://api.example.com/v0", "", "withdrawn"),
        ("two", "https://api.example.com/v2", "", "rejected"),
        ("three", "https://other.example.org/v1", "example labs", "review"),
        ("four", "http://[", "", "review"),
    ):
        Submission.objects.create(
            name=name, endpoint_url=address, organisation=who, state=state, suite=suite,
            email="a@example.org", contract="cog",
        )  # fmt: skip
    assert tries(one, suite).submissions == Tried(2, 3, 2)
    Run.objects.filter(pk=run.pk).update(published=True)
    page = client.get(one.get_absolute_url()).content.decode()
    assert "1 run of this model" in page
    assert "2 submissions of it, 3 at its address" in page


def test_models_without_address_or_organisation_share_none(suite):
    alone, other = model("alone"), model("other")
    jobs.start(alone, suite)
    jobs.start(other, suite)
    assert tries(alone, suite) == Tries(Tried(1, 0, 0), Tried(0, 0, 0))


def standing_on(sealed: bool, usable: float, low: float | None, high: float | None, pk: int):
    suite = Suite(slug="sealed" if sealed else "open", version=1, trips=10, sealed=sealed)
    run = Run(pk=pk, suite=suite, current=True)
    standing = Standing(usable_trips=usable, usable_trips_low=low, usable_trips_high=high)
    return run, {HEADLINE: standing}


@pytest.mark.parametrize(
    ("usable", "interval", "known"), [(9.0, (8.6, 9.4), True), (6.4, (6.0, 6.8), False)]
)
def test_a_suite_that_is_known_shows_against_the_sealed_one(usable, interval, known):
    rows = [standing_on(False, usable, *interval, 1), standing_on(True, 6.0, 5.7, 6.3, 2)]
    found = open_against_sealed([run for run, _ in rows], {run.pk: s for run, s in rows})
    assert found is not None
    assert found.difference == pytest.approx((usable - 6) / 10)
    assert found.high - found.low == pytest.approx(2 * (0.4**2 + 0.3**2) ** 0.5 / 10)
    assert found.known is known


def test_without_both_or_without_intervals_nothing_is_said():
    one, other = standing_on(False, 9, 8, 9.5, 1), standing_on(True, 6, None, None, 2)
    assert open_against_sealed([one[0]], {1: one[1]}) is None
    assert open_against_sealed([one[0], other[0]], {1: one[1], 2: other[1]}) is None


@pytest.mark.parametrize(("half_life", "known"), [(15.0, True), (5.0, False)])
def test_the_models_page_lays_open_against_sealed_for_everybody(client, half_life, known):
    model = make_model("Learner")
    make_run(model, make_suite("open"), half_life)
    make_run(model, make_suite("shut", sealed=True), 5.0)
    page = client.get(model.get_absolute_url()).content.decode()
    assert "Open against sealed" in page
    low, high = (f"{share:.0%}".replace("%", "\u00a0%") for share in interval(half_life, 5.0))
    assert f"({low} to {high})".replace("-", "\u2212") in page
    assert ("the open suite may be known" in page) is known


def interval(opened: float, shut: float) -> tuple[float, float]:
    """Of the difference, in shares of 20 trips: the boards' intervals are .85 to 1.1 of usable."""
    width = ((0.125 * opened) ** 2 + (0.125 * shut) ** 2) ** 0.5
    return (opened - shut - width) / 20, (opened - shut + width) / 20
