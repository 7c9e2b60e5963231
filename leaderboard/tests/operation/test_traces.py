"""Traces of the site: what play and score jobs tell of a run is one tree, without any secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from evaluation import traces
from evaluation.testing.editing_server import EditingServer
from evaluation.testing.telemetry.collector import Collector
from leaderboard import jobs
from leaderboard.models import Call, Run, Suite
from leaderboard.models.runs import RunState
from leaderboard.testing import factories
from leaderboard.testing.served_runs import error, played, scored, served

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("local", "quick_metrics")]


@pytest.fixture
def server() -> Iterator[EditingServer]:
    with EditingServer() as server:
        yield server


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        traces._sender.cache_clear()
        yield collector
        sender = traces._sender()
        traces._sender.cache_clear()
        assert sender is not None
        sender.provider.shutdown()


def begun(server: EditingServer, **suite: Any) -> Run:
    model = served(server, api_key="a-key-nobody-sees")
    return jobs.start(model, factories.tiny_suite(1, trips=2, slug="private-suite", **suite))


def test_calls_belong_to_chains_and_chains_to_the_run_whoever_tells_them(
    server: EditingServer, collector: Collector
):
    limited = iter([True])
    server.instead = lambda call: error(429, {"Retry-After": "0"}) if next(limited, None) else None
    run = scored(played(begun(server)))
    assert run.state == RunState.FINISHED, run.reason_text
    (root,) = collector.named("run")
    chains = {span.span: span for span in collector.named("chain")}
    calls = collector.named("call")
    assert {span.trace for span in collector.spans} == {root.trace}
    assert {span.parent for span in chains.values()} == {root.span}
    assert len(chains) == run.chains.count() == 2
    for span in [*calls, *collector.named("score")]:
        assert chains[span.parent].attributes["chain"] == span.attributes["chain"]
    ledger = Call.objects.filter(run=run).values_list("outcome", flat=True)
    assert sorted(span.attributes["outcome"] for span in calls) == sorted(ledger)
    assert [span.attributes["outcome"] for span in calls if span.failed] == ["rate_limited"]
    assert collector.named("score")
    assert {span.attributes["suite"] for span in collector.spans} == {"private-suite"}
    for chain in chains.values():
        own = [span for span in calls if span.parent == chain.span]
        # The row of a call is there before it is made.
        assert chain.began <= min(span.began for span in own)
        assert max(span.ended for span in own) <= chain.ended


def test_neither_secrets_nor_what_is_sealed_is_told(server: EditingServer, collector: Collector):
    run = begun(server)
    Suite.objects.filter(pk=run.suite.pk).update(sealed=True)  # by force: it is frozen
    run = scored(played(run))
    assert run.state == RunState.FINISHED, run.reason_text
    assert collector.named("run")
    sent = b"".join(collector.bodies)
    pairs = run.suite.core.pairs
    hidden = {
        *(run.secret, "a-key-nobody-sees", server.url, "private-suite"),
        *(chain.case.slug for chain in run.chains.select_related("case")),
        *(text for pair in pairs for text in (pair.slug, pair.forward, pair.backward)),
        *(picture.slug for picture in run.suite.core.pictures),
    }
    assert all(len(text) > 3 for text in hidden)
    assert [text for text in hidden if text.encode() in sent] == []
