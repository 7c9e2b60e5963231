"""The API: everything the pages show, as JSON, for everybody."""

from leaderboard.api.endpoints import api

__all__ = ["api"]
