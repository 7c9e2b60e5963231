"""Monitoring figures: the same from each process, and those that alerts and dashboards use."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import connection
from django.http import Http404
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from leaderboard import jobs
from leaderboard.models import Call, Chain, Run, RunProgress
from leaderboard.models.runs import ChainState, RunState
from leaderboard.operation import monitoring
from leaderboard.testing import factories
from leaderboard.views import health

pytestmark = pytest.mark.django_db
DEPLOY = Path(settings.BASE_DIR) / "deploy"


def reported() -> dict[tuple[str, ...], float]:
    """Return the value of each figure by its name and labels."""
    text = monitoring.exposition(CollectorRegistry()).decode()
    return {
        (sample.name.removeprefix("convergebench_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def run() -> Run:
    """Create a run with a chain in flight, one of a dead worker, two waiting, and all calls."""
    run = jobs.start(factories.editing_model("m"), factories.tiny_suite())
    now = timezone.now()
    first, second, *_ = run.chains.order_by("pk")
    playing = {"state": ChainState.PLAYING, "token": uuid4()}
    Chain.objects.filter(pk=first.pk).update(
        **playing, lease_until=now + timedelta(minutes=1), trips_played=3, trips_scored=1
    )
    Chain.objects.filter(pk=second.pk).update(**playing, lease_until=now - timedelta(minutes=1))
    for outcome, age in (("answered", 1), ("rate_limited", 2), ("lost", 3), ("answered", 90)):
        started = now - timedelta(minutes=age)
        Call.objects.create(
            run=run, chain=first, number=1, direction="forward", outcome=outcome, started_at=started
        )
    Run.objects.filter(pk=run.pk).update(state=RunState.PLAYING)
    RunProgress.objects.filter(pk=run.pk).update(
        calls=4,
        spent_usd="1.25",
        edits_done=2,
        edits_saved=7,
        trips_scored=1,
        progress_at=now - timedelta(seconds=100),
    )
    return Run.objects.get(pk=run.pk)


def test_figures_describe_a_run_under_way(run: Run):
    found = reported()
    assert found["runs", "playing"] == 1
    assert found["chains_in_flight", "m"] == 1
    assert found["leases_lapsed",] == 1
    assert found["scoring_lag_trips", "m"] == 2
    assert 99 < found["queue_age_seconds", "m"] < 200
    assert found["calls_last_hour", "m", "answered"] == 1, "what is older is not counted"
    assert found["calls_last_hour", "m", "rate_limited"] == 1
    assert found["calls_last_hour", "m", "lost"] == 1
    assert (found["calls_total", "m"], found["spent_usd_total", "m"]) == (4, 1.25)
    assert found["edits_saved_total", "m"] == 7


def test_a_scrape_takes_few_queries_with_any_number_of_runs(run: Run):
    with CaptureQueriesContext(connection) as few:
        reported()
    for _ in range(3):
        jobs.start(run.editing_model, run.suite)
    with CaptureQueriesContext(connection) as more:
        reported()
    assert len(few) == len(more) <= 12


def test_the_page_has_the_figures_of_the_site_and_of_all_web_processes(
    run: Run, rf: RequestFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    count = "from prometheus_client import Counter; Counter('visits', 'Visits.').inc({})"
    for visits in (2, 3):  # two processes that have ended, one after the other
        subprocess.run(
            [sys.executable, "-c", count.format(visits)],
            env={"PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
            check=True,
        )
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    page = health.metrics(rf.get("/metrics"))
    assert page["Content-Type"].startswith("text/plain")
    text = page.content.decode()
    assert "visits_total 5.0" in text
    assert 'convergebench_calls_total{model="m"} 4.0' in text


@pytest.mark.parametrize(
    "sent",
    [
        {"REMOTE_ADDR": "8.8.8.8"},
        {"HTTP_X_FORWARDED_FOR": "8.8.8.8"},
        {"HTTP_X_FORWARDED_FOR": "10.0.0.1"},
        {"HTTP_FORWARDED": "for=10.0.0.1"},
        {"REMOTE_ADDR": "nonsense"},
    ],
)
def test_figures_are_served_only_to_private_networks(rf: RequestFactory, sent: dict[str, str]):
    """They name models that are not public yet."""
    with pytest.raises(Http404):
        health.metrics(rf.get("/metrics", **sent))


def test_alerts_and_the_dashboard_use_existing_figures(run: Run):
    known = {f"convergebench_{name}" for name, *_ in reported()} | {
        f"convergebench_{name}" for name in ("audits", "runs_paused")
    }
    texts = [(DEPLOY / "prometheus/alerts.yaml").read_text()]
    dashboard = json.loads((DEPLOY / "grafana/convergebench.json").read_text())
    texts += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = {name for text in texts for name in re.findall(r"convergebench_\w+", text)}
    assert asked
    assert asked <= known


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Debian's package prometheus")
@pytest.mark.parametrize("what", ["rules", "config"])
def test_promtool_accepts_the_files(what: str, tmp_path: Path, run: Any):
    file = {"rules": "alerts.yaml", "config": "prometheus.yaml"}[what]
    command = ["promtool", "check", what, str(DEPLOY / "prometheus" / file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if what == "rules":
        text = monitoring.exposition(CollectorRegistry())
        lint = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, check=False
        )
        assert b"error" not in lint.stderr
