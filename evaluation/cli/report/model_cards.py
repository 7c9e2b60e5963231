"""Results for a model's page: a Markdown table, and YAML for Hugging Face.

The Hub has two conventions: `model-index` in the metadata of a README, which names any data
set, and `.eval_results/NAME.yaml`, which names a benchmark that is a data set of the Hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation import __version__
from evaluation.analysis.eval_results import eval_results, rounded, yaml_text
from evaluation.analysis.half_life import shown_half_life
from evaluation.analysis.thresholds import life
from evaluation.cli.results import MetricResult, run_results
from evaluation.content.suites import Suite
from evaluation.play.run_scores import RunScores

TASK = {"type": "image-to-image", "name": "Round trips of image edits"}


def as_model_index(suite: Suite, runs: Mapping[str, RunScores]) -> str:
    """Return the `model-index` of these runs, for the metadata of a README."""
    models = [_model(suite, *run) for run in runs.items()]
    return yaml_text({"model-index": models})


def as_eval_results(
    suite: Suite, name: str, scores: RunScores, dataset: str, date: str | None
) -> str:
    """Return the `.eval_results` file of one run; `dataset` is the suite on the Hub."""
    headline = next(iter(run_results(suite, scores).values()))
    summary, label = headline.summary, headline.label
    return eval_results(
        suite, name, summary.usable_trips, summary.half_life, label, dataset, date=date
    )


def _model(suite: Suite, name: str, scores: RunScores) -> dict[str, Any]:
    metrics = [row for r in run_results(suite, scores).values() for row in _metrics(suite, r)]
    dataset = {
        "type": "convergebench",
        "name": f"ConvergeBench {suite.title}",
        "config": suite.key,
        "split": "test",
        "revision": suite.content_hash,
    }
    return {"name": name, "results": [{"task": TASK, "dataset": dataset, "metrics": metrics}]}


def _metrics(suite: Suite, result: MetricResult) -> list[dict[str, Any]]:
    summary = result.summary
    values = [
        ("usable_trips", f"Usable trips of {suite.trips}", rounded(summary.usable_trips)),
        # A string such as "> 8" if the half-life is longer than the suite can measure.
        ("half_life", life(), rounded(summary.half_life) or shown_half_life(None, suite.trips)),
    ]
    return [
        {"type": f"{kind}_{result.metric}", "value": value, "name": f"{words} ({result.label})"}
        for kind, words, value in values
        if value is not None
    ]


def as_markdown(suite: Suite, runs: Mapping[str, RunScores]) -> str:
    """Return a table with a row for each run and metric, and a line on the suite."""
    lines = [
        f"### ConvergeBench: {_cell(suite.title)}",
        "",
        f"| Model | Metric | Usable trips | {life()} | 95 % interval | Change seen |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name, scores in runs.items():
        for result in run_results(suite, scores).values():
            summary = result.summary
            usable, seen = summary.usable_trips, summary.change_seen
            cells = [
                name,
                f"{result.label} ({result.version})",
                "–" if usable is None else f"{usable:.1f} of {suite.trips}",
                shown_half_life(summary.half_life, suite.trips),
                result.half_life_interval,
                "–" if seen is None else f"{seen:.0%}",
            ]
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    lines += [
        "",
        f"Suite {suite.key} ({suite.content_hash[:12]}), {len(suite.cases)} cases of "
        f"{suite.trips} round trips; convergebench {__version__}.",
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Escape text so that it stays in its cell and is not read as markup."""
    for mark in "\\|<>[]*_`":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
