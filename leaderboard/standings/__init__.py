"""Standings (a run's results by a metric), and reports on a suite's whole board."""

from leaderboard.standings.experiments import refresh_experiments
from leaderboard.standings.stored import (
    known_at,
    pinned_metrics,
    quality_metrics,
    rebuild,
    refresh_ranks,
    suite_cases,
    write_no_reference,
)

__all__ = [
    "known_at",
    "pinned_metrics",
    "quality_metrics",
    "rebuild",
    "refresh_experiments",
    "refresh_ranks",
    "suite_cases",
    "write_no_reference",
]
