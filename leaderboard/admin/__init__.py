"""The admin: where people tend the benchmark and its runs."""

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

# Lists fit a small screen without it; the first page and the crumbs lead everywhere.
admin.site.enable_nav_sidebar = False
