"""Diagnostics of a suite's cases from its finished runs."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.analysis.item_diagnostics import TOO_EASY, TOO_HARD
from leaderboard.content.drafts import diagnose_suite
from leaderboard.models import Run
from leaderboard.testing import factories
from leaderboard.testing.played import QUICK, play

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _quick(settings: Any) -> None:
    settings.METRICS = QUICK


def test_a_case_on_which_every_model_does_nothing_is_hard():
    suite = factories.tiny_suite()
    runs = [play("noop", suite, slug=f"noop-{number}") for number in range(3)]
    # Everything except the loss by the dither of transmitted images.
    assert all(q > 0.99 for run in runs for c in run.chains.all() for q in c.retention("ssim"))
    for case in diagnose_suite(suite):
        assert (case.runs, case.difficulty, case.flags) == (3, 1.0, (TOO_HARD,))


def test_a_case_on_which_no_model_loses_anything_is_easy():
    suite = factories.tiny_suite()
    for number in range(3):
        play("oracle", suite, slug=f"oracle-{number}")
    for case in diagnose_suite(suite):
        assert (case.difficulty, case.flags) == (0.0, (TOO_EASY,))


def test_cases_are_not_diagnosed_by_a_metric_that_was_not_run():
    run = play("noise", factories.tiny_suite())
    Run.objects.filter(pk=run.pk).update(
        metrics={"lpips": {"missing": "no weights"}, **run.metrics}
    )
    assert [case.runs for case in diagnose_suite(run.suite)] == [1] * run.suite.cases.count()
