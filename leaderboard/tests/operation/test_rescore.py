"""`runs rescore --suite`: each outdated run is scored again once."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from leaderboard import jobs
from leaderboard.models import Run
from leaderboard.models.runs import RunState
from leaderboard.testing.boards import make_run, make_suite

pytestmark = pytest.mark.django_db


def rescore(*args: object, **options: object) -> str:
    out = StringIO()
    call_command("runs", "rescore", *args, stdout=out, **options)
    return out.getvalue()


def test_an_interrupted_rescore_of_a_suite_continues_where_it_stopped(monkeypatch):
    suite = make_suite(images=1)
    runs = [make_run(f"Model {number}", suite, 4, chains=True) for number in range(4)]
    fresh = make_run("Fresh", suite, 4)
    for run in runs:
        Run.objects.filter(pk=run.pk).update(
            metrics=run.metrics | {"lpips": {"version": "of before", "weights_sha256": ""}}
        )
    again, done = jobs.score_again, []

    def stopped(run: Run) -> None:
        if len(done) == 2:
            raise KeyboardInterrupt
        again(run)
        done.append(run.pk)

    monkeypatch.setattr(jobs, "score_again", stopped)
    with pytest.raises(KeyboardInterrupt):
        rescore(suite=suite.slug)
    monkeypatch.setattr(jobs, "score_again", again)
    assert rescore(suite=suite.slug).count("is scored again") == 2
    assert set(Run.objects.filter(state=RunState.SCORING)) == set(runs)
    assert "No finished run" in rescore(suite=suite.slug)
    assert Run.objects.get(pk=fresh.pk).state == RunState.FINISHED


def test_rescore_needs_runs_or_a_suite():
    for runs, suite in (((), None), ((1,), "smoke")):
        with pytest.raises(CommandError, match="Name runs"):
            rescore(*runs, suite=suite)
