"""Results as YAML for a model's page on the Hugging Face Hub.

Two conventions: `model-index` in the metadata of a README, which names any data set, and
`.eval_results/NAME.yaml`, which names a benchmark that is a data set of the Hub.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evaluation import __version__
from evaluation.analysis.levels import life
from evaluation.cli.results import MetricResult, run_results, shown
from evaluation.content.suites import Suite
from evaluation.play.run_scores import RunScores

TASK = {"type": "image-to-image", "name": "Round trips of image edits"}


def as_model_index(suite: Suite, runs: Mapping[str, RunScores]) -> str:
    """The `model-index` of these runs, ready to stand in a README's metadata."""
    return _yaml({"model-index": [_model(suite, *run) for run in runs.items()]})


def as_eval_results(
    suite: Suite, name: str, scores: RunScores, dataset: str, date: str | None
) -> str:
    """The `.eval_results` file of one run on a benchmark that `dataset` is on the Hub.

    One number, as the convention wants it: usable trips by the headline metric.
    """
    results = run_results(suite, scores)
    headline = next(iter(results.values()))
    half = shown(headline.summary.half_life, suite.trips)
    entry: dict[str, Any] = {
        "dataset": {"id": dataset, "task_id": suite.slug},
        "value": _rounded(headline.summary.usable_trips),
        **({"date": date} if date else {}),
        "notes": f"usable trips of {suite.trips} by {headline.label}; {life().lower()} {half}; "
        f"suite {suite.key} ({suite.content_hash[:12]}), convergebench {__version__}, {name}",
    }
    return _yaml([entry])


def _model(suite: Suite, name: str, scores: RunScores) -> dict[str, Any]:
    metrics = [one for r in run_results(suite, scores).values() for one in _metrics(suite, r)]
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
    found = [
        ("usable_trips", f"Usable trips of {suite.trips}", _rounded(summary.usable_trips)),
        # A text such as "> 8" where it is longer than the suite can tell.
        ("half_life", life(), _rounded(summary.half_life) or shown(None, suite.trips)),
    ]
    return [
        {"type": f"{kind}_{result.metric}", "value": value, "name": f"{words} ({result.label})"}
        for kind, words, value in found
        if value is not None
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _yaml(value: Any) -> str:
    return "\n".join(_lines(value))


def _lines(value: Any) -> list[str]:
    """YAML in blocks; a text or a number as JSON, which is YAML as well."""
    found: list[str] = []
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, dict | list):
                found += [f"{key}:", *(f"  {line}" for line in _lines(inner))]
            else:
                found.append(f"{key}: {json.dumps(inner, ensure_ascii=False)}")
    else:
        for inner in value:
            first, *rest = _lines(inner)
            found += [f"- {first}", *(f"  {line}" for line in rest)]
    return found
