"""The admin: where people tend the benchmark and its runs."""

from leaderboard.admin import entries, pairs, pictures, runs, submissions, suites, tokens

__all__ = ["entries", "pairs", "pictures", "runs", "submissions", "suites", "tokens"]
