"""Standings of the site's runs, and what is said of a suite's whole board."""

from leaderboard.standings.stored import rebuild, refresh_ranks, suite_cases

__all__ = ["rebuild", "refresh_ranks", "suite_cases"]
