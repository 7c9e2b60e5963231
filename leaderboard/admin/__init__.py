"""The admin: where people tend the benchmark and its runs."""

from django.contrib import admin

from leaderboard.admin import (
    entries,
    experiments,
    pairs,
    pictures,
    runs,
    submissions,
    suites,
    tokens,
)

__all__ = [
    "entries",
    "experiments",
    "pairs",
    "pictures",
    "runs",
    "submissions",
    "suites",
    "tokens",
]

# Lists fit a small screen without it; the first page and the crumbs lead everywhere.
admin.site.enable_nav_sidebar = False
