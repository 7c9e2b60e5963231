"""Detect changed answers of a hosted model between its last two small runs.

A provider can replace the model behind a name. The runs are compared case by case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluation.analysis.covariance import Design, t_quantile
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.metrics import in_order
from leaderboard import formatting
from leaderboard.models import EditingModel, MetricVersion, Run
from leaderboard.models.runs import RunState
from leaderboard.standings.stored import case_values_by_run, suite_cases

#: The suite of the small runs.
SUITE = "smoke"
#: Two-sided: an unchanged model that runs weekly is flagged about once in two years.
CONFIDENCE = 0.99


@dataclass(frozen=True)
class Change:
    """A comparison of a model's last two runs; `changed` is None if they are not comparable."""

    before: Run
    after: Run
    changed: bool | None
    detail: str

    @property
    def is_public(self) -> bool:
        return self.before.published and self.after.published

    @property
    def sentence(self) -> str:
        between = f"between {_day(self.before)} and {_day(self.after)}"
        if self.changed is None:
            return f"We cannot compare answers {between}: {self.detail}."
        if self.changed:
            return f"Answers changed {between}: {self.detail}."
        return f"No change was detected {between}: {self.detail}."


def last_change(model: EditingModel) -> Change | None:
    """Compare the model's last two runs on the small suite; None if there are fewer.

    Runs of two versions of the suite are not compared.
    """
    runs = model.runs.outside_experiments().filter(
        suite__slug=SUITE, state=RunState.FINISHED, source=Run.Source.OURS
    )
    last = list(runs.select_related("suite").order_by("-finished_at", "-pk")[:2])
    if len(last) < 2 or last[0].suite_id != last[1].suite_id:
        return None
    after, before = last
    return Change(before, after, *_compare(before, after))


def _compare(before: Run, after: Run) -> tuple[bool | None, str]:
    """Return whether usable trips differ by more than chance (None: unknown), and why."""
    if not (before.complete and after.complete):
        return None, "one of the runs is not complete"
    if before.stop_after != after.stop_after:
        return None, "the runs have different stopping rules"
    versions = MetricVersion.objects.filter(standings__run=before).filter(standings__run=after)
    by_name = {version.name: version.pk for version in versions.distinct()}
    metric = next(iter(in_order(by_name)), None)
    if metric is None:
        return None, "the runs were not scored by the same version of a metric"
    values = case_values_by_run(by_name[metric], DEFAULT_THRESHOLD, [before, after])
    if len(values) < 2:
        return None, "one of the runs has no results"
    first, second = (values[run.pk] for run in (before, after))
    shared = np.flatnonzero(~(np.isnan(first) | np.isnan(second)))
    cases = suite_cases(after.suite)
    design = Design([cases[index] for index in shared])
    if not design.enough:
        return None, f"only {formatting.count(len(shared), 'case')} to compare"
    first, second = first[shared, None], second[shared, None]
    difference = float(design.mean(second - first)[0])
    error = float(design.difference_errors(second, first, after.suite.trips)[0])
    margin = t_quantile((1 + CONFIDENCE) / 2, design.freedom) * error
    low, high = difference - margin, difference + margin
    numbers = (
        f"usable trips ({formatting.metric_label(metric)}) differ by {difference:+.1f} "
        f"({low:+.1f} to {high:+.1f}, "
        f"{CONFIDENCE:.0%} interval) on {after.suite}"
    )
    return abs(difference) > margin, numbers


def _day(run: Run) -> str:
    return f"{run.finished_at:%-d %B %Y}"
