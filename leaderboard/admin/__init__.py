"""The admin: curation of the benchmark and control of its runs."""

from django.contrib import admin

from leaderboard.admin import (
    contributions,
    entries,
    pairs,
    pictures,
    runs,
    submissions,
    suites,
    tokens,
    votes,
)
from leaderboard.experiments import admin as experiments

__all__ = [
    "contributions",
    "entries",
    "experiments",
    "pairs",
    "pictures",
    "runs",
    "submissions",
    "suites",
    "tokens",
    "votes",
]

# Without the sidebar lists fit a small screen; the index and breadcrumbs lead everywhere.
admin.site.enable_nav_sidebar = False
