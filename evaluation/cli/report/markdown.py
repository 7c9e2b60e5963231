"""A run, or several of one suite, as a table for a model card."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation import __version__
from evaluation.analysis.levels import life
from evaluation.cli.results import run_results, shown
from evaluation.content.suites import Suite
from evaluation.play.run_scores import RunScores


def as_markdown(suite: Suite, runs: Mapping[str, RunScores]) -> str:
    """A heading, a row for each run and metric, and what the numbers are of."""
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
                shown(summary.half_life, suite.trips),
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
    """Text that stays in its cell and is no markup."""
    for mark in "\\|<>[]*_`":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
