"""The admin: curation of the benchmark and control of its runs."""

from django.contrib import admin

from leaderboard.admin import content, entries, people, runs, submissions, suites
from leaderboard.experiments import admin as experiments

__all__ = ["content", "entries", "experiments", "people", "runs", "submissions", "suites"]

# Without the sidebar, lists fit a small screen; the index and breadcrumbs reach every page.
admin.site.enable_nav_sidebar = False
