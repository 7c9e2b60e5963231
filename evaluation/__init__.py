"""The ConvergeBench harness: play round trips, score them, report.

The core of this package runs without Django and without torch: torch is
imported inside the functions that need it. Only `leaderboard.jobs` depends
on the site.
"""

__version__ = "0.2.0"
