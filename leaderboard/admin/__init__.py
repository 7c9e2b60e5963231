"""The admin: where people tend the benchmark and its runs."""

from django.contrib import admin

from leaderboard.admin import (
    entries,
    pairs,
    pictures,
    runs,
    submissions,
    subscriptions,
    suites,
    tokens,
    users,
)

__all__ = [
    "entries",
    "pairs",
    "pictures",
    "runs",
    "submissions",
    "subscriptions",
    "suites",
    "tokens",
    "users",
]

# Lists fit a small screen without it; the first page and the crumbs lead everywhere.
admin.site.enable_nav_sidebar = False
