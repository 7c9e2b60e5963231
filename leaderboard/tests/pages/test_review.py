"""How often a model was tried is told: the best of many tries looks better than it is."""

from __future__ import annotations

import pytest

from evaluation import jobs
from leaderboard.models import Run
from leaderboard.pages.review import tries
from leaderboard.testing import factories

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
    found = tries(one, suite)
    assert (found.runs, found.same_address, found.same_organisation) == (2, 5, 3)
    Run.objects.filter(editing_model=two).update(source=Run.Source.EXTERNAL)
    assert tries(one, suite).same_address == 2


def test_models_without_address_or_organisation_share_none(suite):
    alone, other = model("alone"), model("other")
    jobs.start(alone, suite)
    jobs.start(other, suite)
    found = tries(alone, suite)
    assert (found.runs, found.same_address, found.same_organisation) == (1, 0, 0)
