"""The ConvergeBench harness: play round trips, score them, report.

The package does not use Django. It can be imported without torch, which only the functions that
need it import.
"""

__version__ = "0.2.0"
