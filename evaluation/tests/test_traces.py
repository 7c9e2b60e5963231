"""Traces of the shell: one tree over several processes, and nothing at all unless asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import evaluation
from evaluation.cli.run_folder import RunFolder
from evaluation.testing.telemetry.collector import Collector
from evaluation.traces import Trace
from evaluation.traces.sender import FLUSH_SECONDS

ROOT = Path(evaluation.__file__).parent.parent
PLAY = ("play", "--editor", "jpeg", "--suite", "smoke", "--limit", "2", "--trips", "2", "--out")
WITHOUT = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}


def python(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=WITHOUT | settings,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_what_one_process_plays_and_another_scores_is_one_trace(tmp_path: Path):
    run = tmp_path / "run"
    with Collector() as collector:
        told = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        python("-m", "evaluation", *PLAY, str(run), **told)
        python("-m", "evaluation", "score", str(run), "--metrics", "psnr", **told)
    assert collector.paths == {"/v1/traces"}
    folder = RunFolder.open(run)
    assert len({span.trace for span in collector.spans}) == 1
    (root,) = collector.named("run")
    chains = collector.named("chain")
    assert not root.parent
    assert {chain.parent for chain in chains} == {root.span}
    assert {chain.attributes["case"] for chain in chains} == {
        chain.case for chain in folder.chains.values()
    }
    by_span = {chain.span: chain for chain in chains}
    calls, scores = collector.named("call"), collector.named("score")
    assert (len(by_span), len(calls), len(scores)) == (2, 2 * 2 * 2, 2)
    for span in calls + scores:
        parent = by_span[span.parent]
        assert span.attributes["chain"] == parent.attributes["chain"]
        assert root.began <= span.began <= span.ended <= root.ended
    edits = [
        (call.attributes["trip"], call.attributes["step"], call.attributes["outcome"])
        for call in sorted(calls, key=lambda call: call.began)
        if call.parent == chains[0].span
    ]
    assert edits == [(n, step, "answered") for n in (1, 2) for step in ("forward", "backward")]
    assert {span.attributes["model"] for span in collector.spans} == {"jpeg"}
    pair = folder.pair(next(iter(folder.chains.values())))
    sent = b"".join(collector.bodies)
    for secret in (folder.secret, pair.forward, pair.backward, str(tmp_path)):
        assert secret.encode() not in sent


def test_nothing_of_it_is_loaded_unless_a_collector_is_named(tmp_path: Path):
    code = (
        "import sys\n"
        "from evaluation.__main__ import main\n"
        f"main({[*PLAY, str(tmp_path / 'run')]!r})\n"
        "print(sorted(m for m in sys.modules if m.startswith('opentelemetry')))\n"
    )
    assert python("-c", code).stdout.splitlines()[-1] == "[]"


def test_who_names_a_collector_without_the_package_is_told_and_the_run_goes_on(tmp_path: Path):
    code = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "from evaluation.__main__ import main\n"
        f"sys.exit(main({[*PLAY, str(tmp_path / 'run')]!r}))\n"
    )
    done = python("-c", code, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert done.stderr.count("pip install 'convergebench[traces]'") == 1
    assert RunFolder.open(tmp_path / "run").complete


def test_a_collector_that_never_answers_holds_nobody_up_for_long():
    code = (
        "import socket, time\n"
        "from evaluation.traces import Trace, flush\n"
        "from evaluation.traces import sender\n"
        "sender.FLUSH_SECONDS = 0.2\n"
        "deaf = socket.create_server(('127.0.0.1', 0))\n"
        "import os\n"
        "os.environ['OTEL_EXPORTER_OTLP_ENDPOINT'] = f'http://127.0.0.1:{deaf.getsockname()[1]}'\n"
        "Trace('key', 'model', 'suite').run(1.0, 2.0)\n"
        "began = time.monotonic(); flush(); print(time.monotonic() - began)\n"
    )
    # The exporter itself would wait ten seconds.
    assert float(python("-c", code).stdout) < FLUSH_SECONDS


def test_of_a_sealed_suite_only_figures_are_told(monkeypatch):
    heard = []

    class Ears:
        def send(self, *about, **more):
            heard.append(repr((about, more)))

    monkeypatch.setattr("evaluation.traces._sender", lambda: Ears())
    trace = Trace("7", "model", "hidden-suite", sealed=True)
    trace.chain("12", 1.0, 2.0, case="books--hidden", trips=3, outcome="completed")
    trace.call("12", 1.0, 0.5, trip=1, step="forward", attempt=1, outcome="answered")
    assert len(heard) == 2
    assert not any("hidden" in told or "books" in told for told in heard)
    assert all("'convergebench.suite': 'sealed'" in told for told in heard)
