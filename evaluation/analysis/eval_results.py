"""Results of a run for Hugging Face: `.eval_results/NAME.yaml` in a model's repository."""

from __future__ import annotations

from typing import Any

import yaml

from evaluation import __version__
from evaluation.analysis.half_life import shown_half_life
from evaluation.analysis.thresholds import life
from evaluation.content.suites import Suite


def eval_results(
    suite: Suite,
    name: str,
    usable_trips: float | None,
    half_life: float | None,
    label: str,
    dataset: str,
    *,
    date: str | None,
    url: str = "",
) -> str:
    """Return the text of an `.eval_results` file.

    `label` is the metric's label, `dataset` the suite's name on the Hub, `url` the page with the
    results. The format has room for only one value: we state usable trips.
    """
    entry: dict[str, Any] = {
        "dataset": {"id": dataset, "task_id": suite.slug},
        "value": rounded(usable_trips),
        **({"date": date} if date else {}),
        **({"source": {"url": url, "name": "ConvergeBench"}} if url else {}),
        "notes": f"usable trips of {suite.trips} by {label}; {life().lower()} "
        f"{shown_half_life(half_life, suite.trips)}; suite {suite.key} "
        f"({suite.content_hash[:12]}), convergebench {__version__}, {name}",
    }
    return yaml_text([entry])


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def yaml_text(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1_000).rstrip()
