"""The ConvergeBench harness: play round trips, score them, report.

The package does not use Django. Importing it does not import torch: functions that need torch
import it themselves.
"""

__version__ = "0.2.0"
